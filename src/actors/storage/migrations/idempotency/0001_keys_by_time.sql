CREATE TABLE `keys_by_time` (
	`bucket` integer NOT NULL,
	`key` text NOT NULL,
	`fingerprint` text NOT NULL,
	`call` text NOT NULL,
	`state` text NOT NULL,
	`answer` text,
	`at_ms` integer NOT NULL,
	PRIMARY KEY(`bucket`, `key`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `keys_by_time` (`bucket`, `key`, `fingerprint`, `call`, `state`, `answer`, `at_ms`) SELECT CAST(`row` ->> 'at_ms' AS integer) / 300000, `key`, `row` ->> 'fingerprint', `row` ->> 'call', `row` ->> 'state', `row` ->> 'answer', CAST(`row` ->> 'at_ms' AS integer) FROM `keys`;--> statement-breakpoint
DELETE FROM `keys`;