CREATE TABLE `agents` (
	`id` text PRIMARY KEY NOT NULL,
	`region` text NOT NULL,
	`token_hash` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`state` text NOT NULL,
	FOREIGN KEY (`region`) REFERENCES `regions`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `agents_token_hash_unique` ON `agents` (`token_hash`);--> statement-breakpoint
CREATE INDEX `agents_by_region` ON `agents` (`region`);--> statement-breakpoint
CREATE TABLE `api_keys` (
	`hash` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`name` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`revoked_at_ms` integer,
	FOREIGN KEY (`tenant`) REFERENCES `tenants`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `api_keys_by_tenant` ON `api_keys` (`tenant`);--> statement-breakpoint
CREATE TABLE `ended_calls` (
	`tenant` text NOT NULL,
	`program` text NOT NULL,
	`run` text NOT NULL,
	`call` text NOT NULL,
	`position` integer NOT NULL,
	`thread` text NOT NULL,
	`parents` text NOT NULL,
	`model` text NOT NULL,
	`opened_at_ms` integer NOT NULL,
	`ended_at_ms` integer,
	`state` text NOT NULL,
	`outcome` text,
	`finish_reason` text,
	`error_code` text,
	`inherited_us` integer NOT NULL,
	`parents_known` integer NOT NULL,
	`answered` text,
	PRIMARY KEY(`tenant`, `program`, `run`, `call`)
);
--> statement-breakpoint
CREATE INDEX `ended_calls_by_position` ON `ended_calls` (`tenant`,`program`,`run`,`position`);--> statement-breakpoint
CREATE TABLE `ended_leases` (
	`lease` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`program` text NOT NULL,
	`run` text NOT NULL,
	`call` text NOT NULL,
	`position` integer NOT NULL,
	`agent` text NOT NULL,
	`engine` text NOT NULL,
	`epoch` text NOT NULL,
	`region` text NOT NULL,
	`model` text NOT NULL,
	`reason` text,
	`speed_factor` real NOT NULL,
	`opened_at_ms` integer NOT NULL,
	`state` text NOT NULL,
	`outcome` text,
	`error_code` text,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`service_wall_us` integer NOT NULL,
	`service_modelled_us` integer NOT NULL,
	`wait_us` integer NOT NULL,
	`preemptions` integer NOT NULL,
	`first_token_us` integer,
	`finish_reason` text
);
--> statement-breakpoint
CREATE INDEX `ended_leases_by_run` ON `ended_leases` (`tenant`,`program`,`run`);--> statement-breakpoint
CREATE TABLE `ended_programs` (
	`tenant` text NOT NULL,
	`program` text NOT NULL,
	`run` text NOT NULL,
	`app` text,
	`class` text NOT NULL,
	`metadata` text NOT NULL,
	`reading` text NOT NULL,
	`started_at_ms` integer NOT NULL,
	`ended_at_ms` integer NOT NULL,
	`end_reason` text NOT NULL,
	`service_us` integer NOT NULL,
	`service_wall_us` integer NOT NULL,
	`service_modelled_us` integer NOT NULL,
	`critical_path_us` integer NOT NULL,
	`wait_us` integer NOT NULL,
	`engines` text NOT NULL,
	`pins` text NOT NULL,
	`last_arrival_ms` integer,
	`last_completion_ms` integer,
	`calls` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`preemptions` integer NOT NULL,
	PRIMARY KEY(`tenant`, `program`, `run`)
);
--> statement-breakpoint
CREATE INDEX `ended_programs_by_end` ON `ended_programs` (`tenant`,`ended_at_ms`);--> statement-breakpoint
CREATE TABLE `models` (
	`id` text PRIMARY KEY NOT NULL,
	`ordering_service` text NOT NULL,
	`context_tokens_max` integer NOT NULL,
	`bytes_per_token` real NOT NULL,
	`created_at_ms` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `regions` (
	`id` text PRIMARY KEY NOT NULL,
	`position` integer NOT NULL,
	`location_hint` text,
	`latitude` real,
	`longitude` real
);
--> statement-breakpoint
CREATE TABLE `tenants` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`weight` real NOT NULL,
	`created_at_ms` integer NOT NULL
);
