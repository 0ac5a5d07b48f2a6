CREATE TABLE `counted_leases` (
	`day` integer NOT NULL,
	`call` text NOT NULL,
	`lease` text NOT NULL,
	`charged` text NOT NULL,
	PRIMARY KEY(`day`, `call`, `lease`)
) WITHOUT ROWID;
--> statement-breakpoint
DROP INDEX `programs_by_arrival`;--> statement-breakpoint
INSERT INTO `counted_leases` (`day`, `call`, `lease`, `charged`) SELECT `at_ms` / 86400000, `call`, `lease`, `charged` FROM `metered`;--> statement-breakpoint
DELETE FROM `metered`;