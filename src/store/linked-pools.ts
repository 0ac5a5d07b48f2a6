/**
 * Where models are served. A row says that an agent has linked to the pool of a region and a model, once at least. With many regions
 * and models most pools never have an engine, and only these rows tell them apart. They stay: a pool that has lost its agents
 * answers for itself.
 */
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { Env } from '../env.ts'
import { sleep, within } from '../platform/deadline.ts'
import { logFailure } from '../platform/log.ts'
import { type Catalogue, isLinked } from './catalogue.ts'
import { database, fromStore } from './database.ts'
import { linkedPools } from './schema.ts'

/** The link waits for the row for so long, and opens without it then. */
const WAIT_MS = 1_000
/** About 15 s: what a Worker may still do once it has answered ends after 30. */
const TRIES_MAX = 6
const BACKOFF: BackoffBounds = { min_ms: 500, max_ms: 8_000 }

/**
 * Writes the row if it is missing, and goes on under `waitUntil` where D1 is slow or fails. Without the row calls go to other regions
 * that serve the model, until the agent's next link.
 */
export async function noteLinked(
  { env, waitUntil }: { env: Env; waitUntil(work: Promise<void>): void },
  known: Catalogue,
  region: string,
  model: string,
): Promise<void> {
  if (isLinked(known, region, model)) return
  const writing = written(env, { region, model })
  waitUntil(writing)
  await within(writing, WAIT_MS)
}

async function written(env: Env, row: { region: string; model: string }): Promise<void> {
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    try {
      await fromStore(() => database(env.DB).insert(linkedPools).values(row).onConflictDoNothing().run())
      return
    } catch (error) {
      logFailure('linked_pool_not_noted', error, { ...row, tries })
    }
    if (tries < TRIES_MAX) await sleep(backoffMs(tries, BACKOFF, Math.random()))
  }
}
