ALTER TABLE `ended_leases` ADD `swapped_out_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_leases` ADD `swapped_in_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_leases` ADD `recomputed_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_leases` ADD `swap_us` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `swapped_out_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `swapped_in_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `recomputed_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `ended_programs` ADD `swap_us` integer DEFAULT 0 NOT NULL;