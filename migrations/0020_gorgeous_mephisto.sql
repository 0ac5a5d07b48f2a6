ALTER TABLE `ended_leases` ADD `resumed_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `resumed_tokens` integer DEFAULT 0 NOT NULL;