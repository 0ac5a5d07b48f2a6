CREATE TABLE `dead_letters` (
	`id` text PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL,
	`kind` text NOT NULL,
	`tenant` text NOT NULL,
	`program` text NOT NULL,
	`run` text NOT NULL,
	`agent` text,
	`reason` text NOT NULL,
	`content` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `dead_letters_by_time` ON `dead_letters` (`at_ms`,`id`);