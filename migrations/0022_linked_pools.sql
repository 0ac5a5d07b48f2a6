CREATE TABLE `linked_pools` (
	`region` text NOT NULL,
	`model` text NOT NULL,
	PRIMARY KEY(`region`, `model`)
);
