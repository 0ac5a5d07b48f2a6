CREATE TABLE `keys` (
	`key` text PRIMARY KEY NOT NULL,
	`row` text NOT NULL
);
