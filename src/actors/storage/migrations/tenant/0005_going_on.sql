ALTER TABLE `programs` ADD `class` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `programs` ADD `output_tokens` integer DEFAULT 0 NOT NULL;