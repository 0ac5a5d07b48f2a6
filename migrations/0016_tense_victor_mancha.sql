ALTER TABLE `models` ADD `prompt_price` real;--> statement-breakpoint
ALTER TABLE `models` ADD `cached_prompt_price` real;--> statement-breakpoint
ALTER TABLE `models` ADD `output_price` real;