CREATE TABLE `shard_members` (
	`agent` text PRIMARY KEY NOT NULL,
	`shard` integer NOT NULL,
	`engines` integer NOT NULL,
	`seats` integer NOT NULL
);
