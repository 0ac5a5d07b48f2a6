ALTER TABLE `ended_programs` ADD `budget` text;--> statement-breakpoint
ALTER TABLE `program_regions` ADD `has_budget` integer DEFAULT false NOT NULL;