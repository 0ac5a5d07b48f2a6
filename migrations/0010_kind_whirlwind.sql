ALTER TABLE `ended_calls` ADD `tools` text;--> statement-breakpoint
ALTER TABLE `ended_calls` ADD `returned` text;--> statement-breakpoint
ALTER TABLE `ended_calls` ADD `brings` text;