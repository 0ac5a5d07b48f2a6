CREATE TABLE `budget_state` (
	`name` text PRIMARY KEY NOT NULL,
	`row` text NOT NULL
) WITHOUT ROWID;
