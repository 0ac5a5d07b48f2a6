CREATE TABLE `programs` (
	`program` text PRIMARY KEY NOT NULL,
	`run` text NOT NULL,
	`app` text,
	`started_at_ms` integer NOT NULL,
	`last_arrival_ms` integer NOT NULL,
	`open_calls` integer NOT NULL,
	`calls` integer NOT NULL,
	`service_us` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `programs_by_start` ON `programs` (`started_at_ms`,`program`);--> statement-breakpoint
CREATE INDEX `programs_by_arrival` ON `programs` (`last_arrival_ms`);