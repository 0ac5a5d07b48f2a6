/**
 * Where models are served. A row says that an agent has linked to the pool of a region and a model, once at least. With many regions
 * and models most pools never have an engine, and only these rows tell them apart. They stay: a pool that has lost its agents
 * answers for itself.
 */
import type { Env } from '../env.ts'
import { within } from '../platform/deadline.ts'
import { logFailure } from '../platform/log.ts'
import { type Catalogue, isLinked } from './catalogue.ts'
import { database, fromStore } from './database.ts'
import { linkedPools } from './schema.ts'

/** The link opens without the row after this. The agent's next link writes it. */
const WRITE_MS = 1_000

export async function noteLinked(env: Env, known: Catalogue, region: string, model: string): Promise<void> {
  if (isLinked(known, region, model)) return
  const row = { region, model }
  const writing = fromStore(() => database(env.DB).insert(linkedPools).values(row).onConflictDoNothing().run())
  try {
    await within(writing, WRITE_MS)
  } catch (error) {
    logFailure('linked_pool_not_noted', error, row)
  }
}
