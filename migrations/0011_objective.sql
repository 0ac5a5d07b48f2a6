ALTER TABLE `models` ADD `objective` text DEFAULT 'token_latency' NOT NULL;--> statement-breakpoint
ALTER TABLE `tenants` ADD `objective` text;