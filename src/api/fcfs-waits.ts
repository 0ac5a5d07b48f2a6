/**
 * What the calls of a program would have waited under first come, first served. The agents of the engines that served it replay
 * their last arrivals (gpu-agent/engine/replay/). An estimate: it is made on request, stored nowhere, and says where it is unknown.
 */
import '@hono/zod-openapi'
import { poolActor } from '../actors/stubs.ts'
import type { ProgramSummary } from '../core/program/process-table.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { FcfsWaits } from '../protocol/fcfs-waits.ts'
import type { Replay } from '../protocol/index.ts'
import { atOnce } from './bounded-concurrency.ts'
import { seconds } from './measured-json.ts'

const ENGINES_AT_ONCE_MAX = 4

export const FcfsWaitsJson = FcfsWaits.openapi('FcfsWaits')

export async function fcfsWaits(env: Env, { tenant, program, run, engines }: ProgramSummary): Promise<FcfsWaits> {
  const places = [...new Map(engines.map((one) => [one.engine, one])).values()]
  const replays = await atOnce(places, ENGINES_AT_ONCE_MAX, async ({ engine, region, model }) => {
    // An engine's id is its agent's, "-" and a label without "-" (actors/link-frames.ts).
    const agent = engine.slice(0, engine.lastIndexOf('-'))
    const pool = poolActor(env, { id: region, location_hint: null }, model)
    const replay = await replayed(() => pool.replay({ agent, engine, tenant, program, run }))
    return { engine, region, replay }
  })
  const calls = replays.flatMap(({ engine, replay }) => (replay.status === 'replayed' ? waitsOf(engine, replay) : []))
  const estimated = calls.filter(({ unknown }) => unknown === null)
  return {
    object: 'program.fcfs_waits',
    ...{ program, run, estimate: true },
    wait_s: estimated.reduce((sum, { wait_s }) => sum + (wait_s ?? 0), 0),
    fcfs_wait_s: estimated.reduce((sum, { fcfs_wait_s }) => sum + (fcfs_wait_s ?? 0), 0),
    estimated_calls: estimated.length,
    engines: replays.map(({ engine, region, replay }) => ({
      ...{ engine, region },
      unknown: replay.status === 'unknown' ? replay.reason : null,
    })),
    calls,
  }
}

function waitsOf(engine: string, { calls }: Extract<Replay, { status: 'replayed' }>): FcfsWaits['calls'] {
  return calls.map((call) =>
    call.status === 'unknown'
      ? { id: call.id, engine, wait_s: null, fcfs_wait_s: null, at_least: false, unknown: call.reason }
      : {
          ...{ id: call.id, engine, wait_s: seconds(call.wait_us), fcfs_wait_s: seconds(call.fcfs_wait_us) },
          ...{ at_least: call.at_least, unknown: null },
        },
  )
}

async function replayed(ask: () => Promise<Replay>): Promise<Replay> {
  try {
    return await ask()
  } catch (error) {
    logFailure('pool_unreachable', error, {})
    return { status: 'unknown', reason: 'silent' }
  }
}
