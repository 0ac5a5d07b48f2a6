ALTER TABLE `ended_leases` ADD `rank` real;--> statement-breakpoint
ALTER TABLE `ended_leases` ADD `expected_remaining_tokens` real;