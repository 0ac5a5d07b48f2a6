CREATE TABLE `audit` (
	`id` text PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`object` text NOT NULL,
	`before_json` text,
	`after_json` text
);
--> statement-breakpoint
CREATE INDEX `audit_by_object` ON `audit` (`object`,`id`);--> statement-breakpoint
CREATE TABLE `program_regions` (
	`tenant` text NOT NULL,
	`program` text NOT NULL,
	`run` text NOT NULL,
	`regions` text NOT NULL,
	PRIMARY KEY(`tenant`, `program`)
);
--> statement-breakpoint
ALTER TABLE `agents` ADD `removed_at_ms` integer;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `models` text;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `regions` text;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `regions` text;--> statement-breakpoint
ALTER TABLE `tenants` ADD `calls_per_minute_max` integer;--> statement-breakpoint
ALTER TABLE `tenants` ADD `live_programs_max` integer;--> statement-breakpoint
ALTER TABLE `tenants` ADD `disabled_at_ms` integer;