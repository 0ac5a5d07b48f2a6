/** A tenant's memory of the leases that count, when its storage is nearly full. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import type { PricedRecord } from '../../src/actors/contracts.ts'
import { ActorDatabase } from '../../src/actors/storage/actor-database.ts'
import { tenantMigrations } from '../../src/actors/storage/migrations.gen.ts'
import { USAGE_PAGE_MAX, UsageMeter } from '../../src/actors/usage-meter.ts'
import { recordOf } from './fixtures.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const PER_BATCH = 200
const BATCHES = 7
const OUTPUT_TOKENS = 3
/** Of some 500 leases, and the tables. */
const BYTES_MAX = 120_000

function records(day: string): PricedRecord[] {
  return Array.from({ length: PER_BATCH }, (_, at) => {
    const call = `${day}-${at}`
    const record = recordOf(call, call, call, { output_tokens: OUTPUT_TOKENS })
    return { ...record, class: 'default', key: null, granted_at_ms: Date.now(), prices: null } as PricedRecord
  })
}

it('leases of the oldest day are forgotten first, and records go on being counted once', async () => {
  await runInDurableObject(env.CONVERSATION.getByName('full-tenant'), async (_, { storage }) => {
    await storage.deleteAll()
    const database = new ActorDatabase(storage, tenantMigrations)
    const meter = new UsageMeter(database, { charged: () => undefined }, BYTES_MAX)
    const days = () =>
      storage.sql.exec<{ day: number; leases: number }>(
        'SELECT day, count(*) AS leases FROM counted_leases GROUP BY day ORDER BY day',
      )
    const today = Math.floor(Date.now() / DAY_MS)
    for (let batch = 0; batch < BATCHES; batch++) {
      await meter.record(records(`batch-${batch}`))
      // As if a day had gone by. None of them is over its time at the end.
      if (batch < BATCHES - 1) storage.sql.exec('UPDATE counted_leases SET day = day - 1')
    }
    const remembered = days().toArray()
    // What it was over when the last records came, and those.
    expect(database.bytes).toBeLessThan(2 * BYTES_MAX)
    expect(remembered.at(-1)).toMatchObject({ day: today, leases: PER_BATCH })
    expect(remembered.length).toBeLessThan(BATCHES)
    // No day is left out between those that are remembered.
    expect(remembered.map(({ day }) => today - day)).toEqual(remembered.map((_, at) => remembered.length - 1 - at))
    await meter.record(records(`batch-${BATCHES - 1}`))
    const page = await meter.page({ cursor: null, limit: USAGE_PAGE_MAX })
    expect(page?.usage).toMatchObject([
      { calls: BATCHES * PER_BATCH, output_tokens: BATCHES * PER_BATCH * OUTPUT_TOKENS },
    ])
  })
})
