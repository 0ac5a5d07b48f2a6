CREATE TABLE `leases` (
	`lease` text PRIMARY KEY NOT NULL,
	`claims` text NOT NULL,
	`arrived_at_ms` integer NOT NULL,
	`prompt_tokens` integer,
	`state` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `leases_by_state` ON `leases` (`state`);--> statement-breakpoint
CREATE TABLE `ledger` (
	`epoch` text NOT NULL,
	`step` integer NOT NULL,
	`lease` text NOT NULL,
	`wall_us` integer NOT NULL,
	`modelled_us` integer NOT NULL,
	`computed_tokens` integer NOT NULL,
	`sampled_tokens` integer NOT NULL,
	PRIMARY KEY(`lease`, `epoch`, `step`)
);
--> statement-breakpoint
CREATE TABLE `records` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`lease` text NOT NULL,
	`record` text NOT NULL,
	`acknowledged_at_ms` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `records_lease_unique` ON `records` (`lease`);--> statement-breakpoint
CREATE INDEX `records_by_acknowledgement` ON `records` (`acknowledged_at_ms`,`seq`);