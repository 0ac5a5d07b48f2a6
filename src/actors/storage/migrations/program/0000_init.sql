CREATE TABLE `calls` (
	`run` text NOT NULL,
	`position` integer NOT NULL,
	`row` text NOT NULL,
	PRIMARY KEY(`run`, `position`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `leases` (
	`run` text NOT NULL,
	`lease` text NOT NULL,
	`row` text NOT NULL,
	PRIMARY KEY(`run`, `lease`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `runs` (
	`run` text PRIMARY KEY NOT NULL,
	`row` text NOT NULL
) WITHOUT ROWID;
