CREATE TABLE `applications` (
	`tenant` text NOT NULL,
	`id` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`ended` integer NOT NULL,
	`report` text NOT NULL,
	`definition` text NOT NULL,
	PRIMARY KEY(`tenant`, `id`)
);
--> statement-breakpoint
CREATE INDEX `applications_by_tenant` ON `applications` (`tenant`,`created_at_ms`,`id`);