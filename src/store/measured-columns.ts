/** What is summed over leases, as columns: of an ended program, of a lease, and of usage outside of programs. */
import { integer } from 'drizzle-orm/sqlite-core'
import type { MeasuredSums } from '../protocol/index.ts'

export function measuredColumns() {
  return {
    prompt_tokens: integer('prompt_tokens').notNull(),
    cached_tokens: integer('cached_tokens').notNull(),
    output_tokens: integer('output_tokens').notNull(),
    service_wall_us: integer('service_wall_us').notNull(),
    service_modelled_us: integer('service_modelled_us').notNull(),
    wait_us: integer('wait_us').notNull(),
    preemptions: integer('preemptions').notNull(),
    // 0 in rows from before there were these columns.
    resumed_tokens: integer('resumed_tokens').notNull().default(0),
    swapped_out_tokens: integer('swapped_out_tokens').notNull().default(0),
    swapped_in_tokens: integer('swapped_in_tokens').notNull().default(0),
    recomputed_tokens: integer('recomputed_tokens').notNull().default(0),
    swap_us: integer('swap_us').notNull().default(0),
  } satisfies Record<keyof MeasuredSums, unknown>
}
