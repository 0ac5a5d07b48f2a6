CREATE TABLE `batches` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`created_at_ms` integer NOT NULL,
	`ended` integer NOT NULL,
	`state` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `batches_by_tenant` ON `batches` (`tenant`,`created_at_ms`,`id`);--> statement-breakpoint
CREATE TABLE `files` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`filename` text NOT NULL,
	`purpose` text NOT NULL,
	`bytes` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer,
	`status` text NOT NULL,
	`parts` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `files_by_tenant` ON `files` (`tenant`,`created_at_ms`,`id`);--> statement-breakpoint
CREATE TABLE `upload_parts` (
	`id` text PRIMARY KEY NOT NULL,
	`upload` text NOT NULL,
	`bytes` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`parts` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `upload_parts_by_upload` ON `upload_parts` (`upload`);--> statement-breakpoint
CREATE TABLE `uploads` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`filename` text NOT NULL,
	`purpose` text NOT NULL,
	`bytes` integer NOT NULL,
	`created_at_ms` integer NOT NULL,
	`expires_at_ms` integer NOT NULL,
	`status` text NOT NULL,
	`file` text,
	`file_expires_after_s` integer
);
--> statement-breakpoint
CREATE INDEX `uploads_by_tenant` ON `uploads` (`tenant`,`expires_at_ms`);