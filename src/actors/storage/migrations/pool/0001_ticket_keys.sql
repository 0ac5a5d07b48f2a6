ALTER TABLE `members` ADD `ticket_kid` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `members` ADD `draining` integer DEFAULT false NOT NULL;