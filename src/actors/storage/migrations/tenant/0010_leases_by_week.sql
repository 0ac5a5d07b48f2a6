CREATE TABLE `counted_leases` (
	`week` integer NOT NULL,
	`call` text NOT NULL,
	`lease` text NOT NULL,
	`charged` text NOT NULL,
	PRIMARY KEY(`week`, `call`, `lease`)
) WITHOUT ROWID;
--> statement-breakpoint
DROP INDEX `programs_by_arrival`;--> statement-breakpoint
INSERT INTO `counted_leases` (`week`, `call`, `lease`, `charged`) SELECT `at_ms` / 604800000, `call`, `lease`, `charged` FROM `metered`;--> statement-breakpoint
DELETE FROM `metered`;