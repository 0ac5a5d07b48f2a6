CREATE TABLE `classes` (
	`tenant` text NOT NULL,
	`class` text NOT NULL,
	`ends` integer NOT NULL,
	`updated_at_ms` integer NOT NULL,
	`sketch` text NOT NULL,
	PRIMARY KEY(`tenant`, `class`)
);
