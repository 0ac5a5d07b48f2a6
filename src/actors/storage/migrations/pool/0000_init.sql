CREATE TABLE `members` (
	`agent` text PRIMARY KEY NOT NULL,
	`hello` text NOT NULL,
	`joined_at_ms` integer NOT NULL
);
