INSERT INTO `metered` (`call`, `lease`, `at_ms`, `charged`) SELECT `call`, `lease`, `at_ms`, '' FROM `metered_leases`;--> statement-breakpoint
DROP TABLE `metered_leases`;
