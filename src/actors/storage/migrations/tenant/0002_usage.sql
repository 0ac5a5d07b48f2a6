CREATE TABLE `metered_leases` (
	`lease` text PRIMARY KEY NOT NULL,
	`call` text NOT NULL,
	`at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `metered_leases_by_call` ON `metered_leases` (`call`);--> statement-breakpoint
CREATE INDEX `metered_leases_by_time` ON `metered_leases` (`at_ms`);--> statement-breakpoint
CREATE TABLE `usage` (
	`day` text NOT NULL,
	`key` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`leases` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`service_wall_us` integer NOT NULL,
	`service_modelled_us` integer NOT NULL,
	`wait_us` integer NOT NULL,
	`preemptions` integer NOT NULL,
	PRIMARY KEY(`day`, `key`, `model`)
);
