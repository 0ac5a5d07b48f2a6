/** Written by `npm run db:generate` from the .sql files beside this one. */

export const programMigrations = {
  "journal": {
    "version": "7",
    "dialect": "sqlite",
    "entries": [
      {
        "idx": 0,
        "version": "6",
        "when": 1795249202123,
        "tag": "0000_init",
        "breakpoints": true
      },
      {
        "idx": 1,
        "version": "6",
        "when": 1795757531888,
        "tag": "0001_one_row_per_call",
        "breakpoints": true
      }
    ]
  },
  "migrations": {
    "m0000": "CREATE TABLE `calls` (\n\t`run` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`row` text NOT NULL,\n\tPRIMARY KEY(`run`, `position`)\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE TABLE `leases` (\n\t`run` text NOT NULL,\n\t`lease` text NOT NULL,\n\t`row` text NOT NULL,\n\tPRIMARY KEY(`run`, `lease`)\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE TABLE `runs` (\n\t`run` text PRIMARY KEY NOT NULL,\n\t`row` text NOT NULL\n) WITHOUT ROWID;\n",
    "m0001": "ALTER TABLE `calls` ADD `leases` text;"
  },
  "fresh": [
    "CREATE TABLE `calls` (\n\t`run` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`row` text NOT NULL, `leases` text,\n\tPRIMARY KEY(`run`, `position`)\n) WITHOUT ROWID",
    "CREATE TABLE `leases` (\n\t`run` text NOT NULL,\n\t`lease` text NOT NULL,\n\t`row` text NOT NULL,\n\tPRIMARY KEY(`run`, `lease`)\n) WITHOUT ROWID",
    "CREATE TABLE `runs` (\n\t`run` text PRIMARY KEY NOT NULL,\n\t`row` text NOT NULL\n) WITHOUT ROWID"
  ]
}

export const poolMigrations = {
  "journal": {
    "version": "7",
    "dialect": "sqlite",
    "entries": [
      {
        "idx": 0,
        "version": "6",
        "when": 1795249150265,
        "tag": "0000_init",
        "breakpoints": true
      },
      {
        "idx": 1,
        "version": "6",
        "when": 1795260337903,
        "tag": "0001_ticket_keys",
        "breakpoints": true
      },
      {
        "idx": 2,
        "version": "6",
        "when": 1795757638510,
        "tag": "0002_modern_captain_midlands",
        "breakpoints": true
      }
    ]
  },
  "migrations": {
    "m0000": "CREATE TABLE `members` (\n\t`agent` text PRIMARY KEY NOT NULL,\n\t`hello` text NOT NULL,\n\t`joined_at_ms` integer NOT NULL\n);\n",
    "m0001": "ALTER TABLE `members` ADD `ticket_kid` text DEFAULT '' NOT NULL;--> statement-breakpoint\nALTER TABLE `members` ADD `draining` integer DEFAULT false NOT NULL;",
    "m0002": "CREATE TABLE `shard_members` (\n\t`agent` text PRIMARY KEY NOT NULL,\n\t`shard` integer NOT NULL,\n\t`engines` integer NOT NULL,\n\t`seats` integer NOT NULL\n);\n"
  },
  "fresh": [
    "CREATE TABLE `members` (\n\t`agent` text PRIMARY KEY NOT NULL,\n\t`hello` text NOT NULL,\n\t`joined_at_ms` integer NOT NULL\n, `ticket_kid` text DEFAULT '' NOT NULL, `draining` integer DEFAULT false NOT NULL)",
    "CREATE TABLE `shard_members` (\n\t`agent` text PRIMARY KEY NOT NULL,\n\t`shard` integer NOT NULL,\n\t`engines` integer NOT NULL,\n\t`seats` integer NOT NULL\n)"
  ]
}

export const tenantMigrations = {
  "journal": {
    "version": "7",
    "dialect": "sqlite",
    "entries": [
      {
        "idx": 0,
        "version": "6",
        "when": 1795249150662,
        "tag": "0000_init",
        "breakpoints": true
      },
      {
        "idx": 1,
        "version": "6",
        "when": 1795360699523,
        "tag": "0001_source",
        "breakpoints": true
      },
      {
        "idx": 2,
        "version": "6",
        "when": 1795370467276,
        "tag": "0002_usage",
        "breakpoints": true
      },
      {
        "idx": 3,
        "version": "6",
        "when": 1795372091237,
        "tag": "0003_told_at",
        "breakpoints": true
      },
      {
        "idx": 4,
        "version": "6",
        "when": 1795397531592,
        "tag": "0004_kv_swap",
        "breakpoints": true
      },
      {
        "idx": 5,
        "version": "6",
        "when": 1795417051625,
        "tag": "0005_going_on",
        "breakpoints": true
      },
      {
        "idx": 6,
        "version": "6",
        "when": 1795476717077,
        "tag": "0006_spend",
        "breakpoints": true
      },
      {
        "idx": 7,
        "version": "6",
        "when": 1795476721477,
        "tag": "0007_one_memory_of_leases",
        "breakpoints": true
      },
      {
        "idx": 8,
        "version": "6",
        "when": 1795478712881,
        "tag": "0008_sparkling_moon_knight",
        "breakpoints": true
      },
      {
        "idx": 9,
        "version": "6",
        "when": 1795480013651,
        "tag": "0009_budgets",
        "breakpoints": true
      },
      {
        "idx": 10,
        "version": "6",
        "when": 1795797245796,
        "tag": "0010_leases_by_day",
        "breakpoints": true
      },
      {
        "idx": 11,
        "version": "6",
        "when": 1795898415672,
        "tag": "0011_spend_folds",
        "breakpoints": true
      },
      {
        "idx": 12,
        "version": "6",
        "when": 1795927031405,
        "tag": "0012_programs_without_order",
        "breakpoints": true
      }
    ]
  },
  "migrations": {
    "m0000": "CREATE TABLE `programs` (\n\t`program` text PRIMARY KEY NOT NULL,\n\t`run` text NOT NULL,\n\t`app` text,\n\t`started_at_ms` integer NOT NULL,\n\t`last_arrival_ms` integer NOT NULL,\n\t`open_calls` integer NOT NULL,\n\t`calls` integer NOT NULL,\n\t`service_us` integer NOT NULL\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE INDEX `programs_by_start` ON `programs` (`started_at_ms`,`program`);--> statement-breakpoint\nCREATE INDEX `programs_by_arrival` ON `programs` (`last_arrival_ms`);",
    "m0001": "ALTER TABLE `programs` ADD `source` text;",
    "m0002": "CREATE TABLE `metered_leases` (\n\t`lease` text PRIMARY KEY NOT NULL,\n\t`call` text NOT NULL,\n\t`at_ms` integer NOT NULL\n);\n--> statement-breakpoint\nCREATE INDEX `metered_leases_by_call` ON `metered_leases` (`call`);--> statement-breakpoint\nCREATE INDEX `metered_leases_by_time` ON `metered_leases` (`at_ms`);--> statement-breakpoint\nCREATE TABLE `usage` (\n\t`day` text NOT NULL,\n\t`key` text NOT NULL,\n\t`model` text NOT NULL,\n\t`calls` integer NOT NULL,\n\t`leases` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_wall_us` integer NOT NULL,\n\t`service_modelled_us` integer NOT NULL,\n\t`wait_us` integer NOT NULL,\n\t`preemptions` integer NOT NULL,\n\tPRIMARY KEY(`day`, `key`, `model`)\n);\n",
    "m0003": "ALTER TABLE `programs` ADD `told_at_ms` integer DEFAULT 0 NOT NULL;",
    "m0004": "ALTER TABLE `usage` ADD `swapped_out_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint\nALTER TABLE `usage` ADD `swapped_in_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint\nALTER TABLE `usage` ADD `recomputed_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint\nALTER TABLE `usage` ADD `swap_us` integer DEFAULT 0 NOT NULL;",
    "m0005": "ALTER TABLE `programs` ADD `class` text DEFAULT '' NOT NULL;--> statement-breakpoint\nALTER TABLE `programs` ADD `output_tokens` integer DEFAULT 0 NOT NULL;",
    "m0006": "CREATE TABLE `metered` (\n\t`call` text NOT NULL,\n\t`lease` text NOT NULL,\n\t`at_ms` integer NOT NULL,\n\t`charged` text NOT NULL,\n\tPRIMARY KEY(`call`, `lease`)\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE INDEX `metered_by_time` ON `metered` (`at_ms`);--> statement-breakpoint\nCREATE TABLE `program_spend` (\n\t`day` text NOT NULL,\n\t`program` text NOT NULL,\n\t`calls` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_us` integer NOT NULL,\n\t`cost_nanos` integer NOT NULL,\n\tPRIMARY KEY(`day`, `program`)\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE TABLE `spend` (\n\t`day` text NOT NULL,\n\t`key` text NOT NULL,\n\t`class` text NOT NULL,\n\t`model` text NOT NULL,\n\t`calls` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_us` integer NOT NULL,\n\t`cost_nanos` integer NOT NULL,\n\tPRIMARY KEY(`day`, `key`, `class`, `model`)\n) WITHOUT ROWID;\n",
    "m0007": "INSERT INTO `metered` (`call`, `lease`, `at_ms`, `charged`) SELECT `call`, `lease`, `at_ms`, '' FROM `metered_leases`;--> statement-breakpoint\nDROP TABLE `metered_leases`;\n",
    "m0008": "ALTER TABLE `usage` ADD `resumed_tokens` integer DEFAULT 0 NOT NULL;",
    "m0009": "CREATE TABLE `budget_state` (\n\t`name` text PRIMARY KEY NOT NULL,\n\t`row` text NOT NULL\n) WITHOUT ROWID;\n",
    "m0010": "CREATE TABLE `counted_leases` (\n\t`day` integer NOT NULL,\n\t`call` text NOT NULL,\n\t`lease` text NOT NULL,\n\t`charged` text NOT NULL,\n\tPRIMARY KEY(`day`, `call`, `lease`)\n) WITHOUT ROWID;\n--> statement-breakpoint\nDROP INDEX `programs_by_arrival`;--> statement-breakpoint\nINSERT INTO `counted_leases` (`day`, `call`, `lease`, `charged`) SELECT `at_ms` / 86400000, `call`, `lease`, `charged` FROM `metered`;--> statement-breakpoint\nDELETE FROM `metered`;",
    "m0011": "CREATE TABLE `spend_folds` (\n\t`id` integer PRIMARY KEY NOT NULL,\n\t`folded` integer NOT NULL\n);\n",
    "m0012": "DROP INDEX `programs_by_start`;"
  },
  "fresh": [
    "CREATE TABLE `programs` (\n\t`program` text PRIMARY KEY NOT NULL,\n\t`run` text NOT NULL,\n\t`app` text,\n\t`started_at_ms` integer NOT NULL,\n\t`last_arrival_ms` integer NOT NULL,\n\t`open_calls` integer NOT NULL,\n\t`calls` integer NOT NULL,\n\t`service_us` integer NOT NULL\n, `source` text, `told_at_ms` integer DEFAULT 0 NOT NULL, `class` text DEFAULT '' NOT NULL, `output_tokens` integer DEFAULT 0 NOT NULL) WITHOUT ROWID",
    "CREATE TABLE `usage` (\n\t`day` text NOT NULL,\n\t`key` text NOT NULL,\n\t`model` text NOT NULL,\n\t`calls` integer NOT NULL,\n\t`leases` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_wall_us` integer NOT NULL,\n\t`service_modelled_us` integer NOT NULL,\n\t`wait_us` integer NOT NULL,\n\t`preemptions` integer NOT NULL, `swapped_out_tokens` integer DEFAULT 0 NOT NULL, `swapped_in_tokens` integer DEFAULT 0 NOT NULL, `recomputed_tokens` integer DEFAULT 0 NOT NULL, `swap_us` integer DEFAULT 0 NOT NULL, `resumed_tokens` integer DEFAULT 0 NOT NULL,\n\tPRIMARY KEY(`day`, `key`, `model`)\n)",
    "CREATE TABLE `metered` (\n\t`call` text NOT NULL,\n\t`lease` text NOT NULL,\n\t`at_ms` integer NOT NULL,\n\t`charged` text NOT NULL,\n\tPRIMARY KEY(`call`, `lease`)\n) WITHOUT ROWID",
    "CREATE INDEX `metered_by_time` ON `metered` (`at_ms`)",
    "CREATE TABLE `program_spend` (\n\t`day` text NOT NULL,\n\t`program` text NOT NULL,\n\t`calls` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_us` integer NOT NULL,\n\t`cost_nanos` integer NOT NULL,\n\tPRIMARY KEY(`day`, `program`)\n) WITHOUT ROWID",
    "CREATE TABLE `spend` (\n\t`day` text NOT NULL,\n\t`key` text NOT NULL,\n\t`class` text NOT NULL,\n\t`model` text NOT NULL,\n\t`calls` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_us` integer NOT NULL,\n\t`cost_nanos` integer NOT NULL,\n\tPRIMARY KEY(`day`, `key`, `class`, `model`)\n) WITHOUT ROWID",
    "CREATE TABLE `budget_state` (\n\t`name` text PRIMARY KEY NOT NULL,\n\t`row` text NOT NULL\n) WITHOUT ROWID",
    "CREATE TABLE `counted_leases` (\n\t`day` integer NOT NULL,\n\t`call` text NOT NULL,\n\t`lease` text NOT NULL,\n\t`charged` text NOT NULL,\n\tPRIMARY KEY(`day`, `call`, `lease`)\n) WITHOUT ROWID",
    "CREATE TABLE `spend_folds` (\n\t`id` integer PRIMARY KEY NOT NULL,\n\t`folded` integer NOT NULL\n)"
  ]
}

export const idempotencyMigrations = {
  "journal": {
    "version": "7",
    "dialect": "sqlite",
    "entries": [
      {
        "idx": 0,
        "version": "6",
        "when": 1795259543507,
        "tag": "0000_keen_forge",
        "breakpoints": true
      },
      {
        "idx": 1,
        "version": "6",
        "when": 1795802168247,
        "tag": "0001_keys_by_time",
        "breakpoints": true
      }
    ]
  },
  "migrations": {
    "m0000": "CREATE TABLE `keys` (\n\t`key` text PRIMARY KEY NOT NULL,\n\t`row` text NOT NULL\n);\n",
    "m0001": "CREATE TABLE `keys_by_time` (\n\t`bucket` integer NOT NULL,\n\t`key` text NOT NULL,\n\t`fingerprint` text NOT NULL,\n\t`call` text NOT NULL,\n\t`state` text NOT NULL,\n\t`answer` text,\n\t`at_ms` integer NOT NULL,\n\tPRIMARY KEY(`bucket`, `key`)\n) WITHOUT ROWID;\n--> statement-breakpoint\nINSERT INTO `keys_by_time` (`bucket`, `key`, `fingerprint`, `call`, `state`, `answer`, `at_ms`) SELECT CAST(`row` ->> 'at_ms' AS integer) / 300000, `key`, `row` ->> 'fingerprint', `row` ->> 'call', `row` ->> 'state', `row` ->> 'answer', CAST(`row` ->> 'at_ms' AS integer) FROM `keys`;--> statement-breakpoint\nDELETE FROM `keys`;"
  },
  "fresh": [
    "CREATE TABLE `keys` (\n\t`key` text PRIMARY KEY NOT NULL,\n\t`row` text NOT NULL\n)",
    "CREATE TABLE `keys_by_time` (\n\t`bucket` integer NOT NULL,\n\t`key` text NOT NULL,\n\t`fingerprint` text NOT NULL,\n\t`call` text NOT NULL,\n\t`state` text NOT NULL,\n\t`answer` text,\n\t`at_ms` integer NOT NULL,\n\tPRIMARY KEY(`bucket`, `key`)\n) WITHOUT ROWID"
  ]
}

export const responsesMigrations = {
  "journal": {
    "version": "7",
    "dialect": "sqlite",
    "entries": [
      {
        "idx": 0,
        "version": "6",
        "when": 1795360212856,
        "tag": "0000_init",
        "breakpoints": true
      }
    ]
  },
  "migrations": {
    "m0000": "CREATE TABLE `chains` (\n\t`root` text PRIMARY KEY NOT NULL,\n\t`metadata` text,\n\t`created_at_ms` integer NOT NULL,\n\t`used_at_ms` integer NOT NULL,\n\t`entries` integer NOT NULL,\n\t`chars` integer NOT NULL\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE TABLE `entries` (\n\t`key` text PRIMARY KEY NOT NULL,\n\t`root` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`row` text NOT NULL,\n\t`text` text NOT NULL,\n\t`chars` integer NOT NULL\n) WITHOUT ROWID;\n--> statement-breakpoint\nCREATE INDEX `entries_by_root` ON `entries` (`root`,`position`);--> statement-breakpoint\nCREATE TABLE `texts` (\n\t`key` text NOT NULL,\n\t`part` integer NOT NULL,\n\t`text` text NOT NULL,\n\tPRIMARY KEY(`key`, `part`)\n) WITHOUT ROWID;\n"
  },
  "fresh": [
    "CREATE TABLE `chains` (\n\t`root` text PRIMARY KEY NOT NULL,\n\t`metadata` text,\n\t`created_at_ms` integer NOT NULL,\n\t`used_at_ms` integer NOT NULL,\n\t`entries` integer NOT NULL,\n\t`chars` integer NOT NULL\n) WITHOUT ROWID",
    "CREATE TABLE `entries` (\n\t`key` text PRIMARY KEY NOT NULL,\n\t`root` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`row` text NOT NULL,\n\t`text` text NOT NULL,\n\t`chars` integer NOT NULL\n) WITHOUT ROWID",
    "CREATE INDEX `entries_by_root` ON `entries` (`root`,`position`)",
    "CREATE TABLE `texts` (\n\t`key` text NOT NULL,\n\t`part` integer NOT NULL,\n\t`text` text NOT NULL,\n\tPRIMARY KEY(`key`, `part`)\n) WITHOUT ROWID"
  ]
}

export const archiveMigrations = {
  "journal": {
    "version": "7",
    "dialect": "sqlite",
    "entries": [
      {
        "idx": 0,
        "version": "6",
        "when": 1795997535304,
        "tag": "0000_init",
        "breakpoints": true
      }
    ]
  },
  "migrations": {
    "m0000": "CREATE TABLE `adopted_leases` (\n\t`lease` text PRIMARY KEY NOT NULL,\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`at_ms` integer NOT NULL\n);\n--> statement-breakpoint\nCREATE INDEX `adopted_leases_by_time` ON `adopted_leases` (`tenant`,`at_ms`);--> statement-breakpoint\nCREATE TABLE `ended_calls` (\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`call` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`thread` text NOT NULL,\n\t`parents` text NOT NULL,\n\t`model` text NOT NULL,\n\t`opened_at_ms` integer NOT NULL,\n\t`ended_at_ms` integer,\n\t`state` text NOT NULL,\n\t`outcome` text,\n\t`finish_reason` text,\n\t`error_code` text,\n\t`inherited_us` integer NOT NULL,\n\t`parents_known` integer NOT NULL,\n\t`answered` text,\n\t`source` text,\n\t`overruled` text,\n\t`tools` text,\n\t`returned` text,\n\t`brings` text,\n\t`gathers` integer,\n\tPRIMARY KEY(`tenant`, `program`, `run`, `call`)\n);\n--> statement-breakpoint\nCREATE INDEX `ended_calls_by_position` ON `ended_calls` (`tenant`,`program`,`run`,`position`);--> statement-breakpoint\nCREATE TABLE `ended_leases` (\n\t`lease` text PRIMARY KEY NOT NULL,\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`call` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`agent` text NOT NULL,\n\t`engine` text NOT NULL,\n\t`epoch` text NOT NULL,\n\t`region` text NOT NULL,\n\t`model` text NOT NULL,\n\t`reason` text,\n\t`speed_factor` real NOT NULL,\n\t`opened_at_ms` integer NOT NULL,\n\t`state` text NOT NULL,\n\t`outcome` text,\n\t`error_code` text,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_wall_us` integer NOT NULL,\n\t`service_modelled_us` integer NOT NULL,\n\t`wait_us` integer NOT NULL,\n\t`preemptions` integer NOT NULL,\n\t`resumed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_out_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_in_tokens` integer DEFAULT 0 NOT NULL,\n\t`recomputed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swap_us` integer DEFAULT 0 NOT NULL,\n\t`first_token_us` integer,\n\t`finish_reason` text,\n\t`rank` real,\n\t`expected_remaining_tokens` real,\n\t`queue_wait_us` integer,\n\t`pauses` text,\n\t`charged` text\n);\n--> statement-breakpoint\nCREATE INDEX `ended_leases_by_run` ON `ended_leases` (`tenant`,`program`,`run`);--> statement-breakpoint\nCREATE TABLE `ended_programs` (\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`app` text,\n\t`class` text NOT NULL,\n\t`metadata` text NOT NULL,\n\t`reading` text NOT NULL,\n\t`started_at_ms` integer NOT NULL,\n\t`ended_at_ms` integer NOT NULL,\n\t`end_reason` text NOT NULL,\n\t`service_us` integer NOT NULL,\n\t`critical_path_us` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_wall_us` integer NOT NULL,\n\t`service_modelled_us` integer NOT NULL,\n\t`wait_us` integer NOT NULL,\n\t`preemptions` integer NOT NULL,\n\t`resumed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_out_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_in_tokens` integer DEFAULT 0 NOT NULL,\n\t`recomputed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swap_us` integer DEFAULT 0 NOT NULL,\n\t`budget` text,\n\t`engines` text NOT NULL,\n\t`pins` text NOT NULL,\n\t`last_arrival_ms` integer,\n\t`last_completion_ms` integer,\n\t`calls` integer NOT NULL,\n\t`regions` text,\n\t`source` text,\n\t`part` text,\n\t`version` integer DEFAULT 0 NOT NULL,\n\tPRIMARY KEY(`tenant`, `program`, `run`)\n);\n--> statement-breakpoint\nCREATE INDEX `ended_programs_by_end` ON `ended_programs` (`tenant`,`ended_at_ms`);"
  },
  "fresh": [
    "CREATE TABLE `adopted_leases` (\n\t`lease` text PRIMARY KEY NOT NULL,\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`at_ms` integer NOT NULL\n)",
    "CREATE INDEX `adopted_leases_by_time` ON `adopted_leases` (`tenant`,`at_ms`)",
    "CREATE TABLE `ended_calls` (\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`call` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`thread` text NOT NULL,\n\t`parents` text NOT NULL,\n\t`model` text NOT NULL,\n\t`opened_at_ms` integer NOT NULL,\n\t`ended_at_ms` integer,\n\t`state` text NOT NULL,\n\t`outcome` text,\n\t`finish_reason` text,\n\t`error_code` text,\n\t`inherited_us` integer NOT NULL,\n\t`parents_known` integer NOT NULL,\n\t`answered` text,\n\t`source` text,\n\t`overruled` text,\n\t`tools` text,\n\t`returned` text,\n\t`brings` text,\n\t`gathers` integer,\n\tPRIMARY KEY(`tenant`, `program`, `run`, `call`)\n)",
    "CREATE INDEX `ended_calls_by_position` ON `ended_calls` (`tenant`,`program`,`run`,`position`)",
    "CREATE TABLE `ended_leases` (\n\t`lease` text PRIMARY KEY NOT NULL,\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`call` text NOT NULL,\n\t`position` integer NOT NULL,\n\t`agent` text NOT NULL,\n\t`engine` text NOT NULL,\n\t`epoch` text NOT NULL,\n\t`region` text NOT NULL,\n\t`model` text NOT NULL,\n\t`reason` text,\n\t`speed_factor` real NOT NULL,\n\t`opened_at_ms` integer NOT NULL,\n\t`state` text NOT NULL,\n\t`outcome` text,\n\t`error_code` text,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_wall_us` integer NOT NULL,\n\t`service_modelled_us` integer NOT NULL,\n\t`wait_us` integer NOT NULL,\n\t`preemptions` integer NOT NULL,\n\t`resumed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_out_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_in_tokens` integer DEFAULT 0 NOT NULL,\n\t`recomputed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swap_us` integer DEFAULT 0 NOT NULL,\n\t`first_token_us` integer,\n\t`finish_reason` text,\n\t`rank` real,\n\t`expected_remaining_tokens` real,\n\t`queue_wait_us` integer,\n\t`pauses` text,\n\t`charged` text\n)",
    "CREATE INDEX `ended_leases_by_run` ON `ended_leases` (`tenant`,`program`,`run`)",
    "CREATE TABLE `ended_programs` (\n\t`tenant` text NOT NULL,\n\t`program` text NOT NULL,\n\t`run` text NOT NULL,\n\t`app` text,\n\t`class` text NOT NULL,\n\t`metadata` text NOT NULL,\n\t`reading` text NOT NULL,\n\t`started_at_ms` integer NOT NULL,\n\t`ended_at_ms` integer NOT NULL,\n\t`end_reason` text NOT NULL,\n\t`service_us` integer NOT NULL,\n\t`critical_path_us` integer NOT NULL,\n\t`prompt_tokens` integer NOT NULL,\n\t`cached_tokens` integer NOT NULL,\n\t`output_tokens` integer NOT NULL,\n\t`service_wall_us` integer NOT NULL,\n\t`service_modelled_us` integer NOT NULL,\n\t`wait_us` integer NOT NULL,\n\t`preemptions` integer NOT NULL,\n\t`resumed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_out_tokens` integer DEFAULT 0 NOT NULL,\n\t`swapped_in_tokens` integer DEFAULT 0 NOT NULL,\n\t`recomputed_tokens` integer DEFAULT 0 NOT NULL,\n\t`swap_us` integer DEFAULT 0 NOT NULL,\n\t`budget` text,\n\t`engines` text NOT NULL,\n\t`pins` text NOT NULL,\n\t`last_arrival_ms` integer,\n\t`last_completion_ms` integer,\n\t`calls` integer NOT NULL,\n\t`regions` text,\n\t`source` text,\n\t`part` text,\n\t`version` integer DEFAULT 0 NOT NULL,\n\tPRIMARY KEY(`tenant`, `program`, `run`)\n)",
    "CREATE INDEX `ended_programs_by_end` ON `ended_programs` (`tenant`,`ended_at_ms`)"
  ]
}
