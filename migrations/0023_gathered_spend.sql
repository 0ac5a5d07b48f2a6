ALTER TABLE `ended_calls` ADD `gathers` integer;--> statement-breakpoint
ALTER TABLE `ended_leases` ADD `charged` text;