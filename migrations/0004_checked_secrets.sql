ALTER TABLE `agents` ADD `checked` integer DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX `agents_unchecked` ON `agents` (`token_hash`) WHERE checked = 0;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `checked` integer DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX `api_keys_unchecked` ON `api_keys` (`hash`) WHERE checked = 0;