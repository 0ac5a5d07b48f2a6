ALTER TABLE `api_keys` ADD `budget` text;--> statement-breakpoint
ALTER TABLE `models` ADD `price_changes` text DEFAULT '[]' NOT NULL;--> statement-breakpoint
ALTER TABLE `tenants` ADD `budget` text;