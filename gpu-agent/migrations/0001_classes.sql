CREATE TABLE `classes` (
	`tenant` text NOT NULL,
	`class` text NOT NULL,
	`told` integer NOT NULL,
	`sketch` text NOT NULL,
	PRIMARY KEY(`tenant`, `class`)
);
--> statement-breakpoint
CREATE INDEX `classes_by_told` ON `classes` (`told`);