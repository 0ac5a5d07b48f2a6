CREATE TABLE `spend_folds` (
	`id` integer PRIMARY KEY NOT NULL,
	`folded` integer NOT NULL
);
