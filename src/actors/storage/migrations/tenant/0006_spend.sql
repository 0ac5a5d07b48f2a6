CREATE TABLE `metered` (
	`call` text NOT NULL,
	`lease` text NOT NULL,
	`at_ms` integer NOT NULL,
	`charged` text NOT NULL,
	PRIMARY KEY(`call`, `lease`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `metered_by_time` ON `metered` (`at_ms`);--> statement-breakpoint
CREATE TABLE `program_spend` (
	`day` text NOT NULL,
	`program` text NOT NULL,
	`calls` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`service_us` integer NOT NULL,
	`cost_nanos` integer NOT NULL,
	PRIMARY KEY(`day`, `program`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `spend` (
	`day` text NOT NULL,
	`key` text NOT NULL,
	`class` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`service_us` integer NOT NULL,
	`cost_nanos` integer NOT NULL,
	PRIMARY KEY(`day`, `key`, `class`, `model`)
) WITHOUT ROWID;
