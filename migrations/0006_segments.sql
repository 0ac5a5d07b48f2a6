CREATE TABLE `adopted_leases` (
	`lease` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`program` text NOT NULL,
	`run` text NOT NULL,
	`at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `adopted_leases_by_time` ON `adopted_leases` (`tenant`,`at_ms`);--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `part` text;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `version` integer DEFAULT 0 NOT NULL;