/**
 * Where open calls are in their engines' orders, as the engines say at this moment. Pools ask their agents, so this is done for
 * people who look, and for at most POSITIONS_MAX leases at a time.
 */
import { poolActor } from '../actors/stubs.ts'
import type { OpenLeaseRef } from '../core/program/program-state.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { POSITIONS_MAX, type QueuePosition } from '../protocol/index.ts'

/** By lease. Those of which nothing is known are left out. */
export async function queuePositions(
  env: Env,
  leases: readonly OpenLeaseRef[],
): Promise<ReadonlyMap<string, QueuePosition>> {
  const pools = Map.groupBy(leases.slice(0, POSITIONS_MAX), ({ region, model }) => JSON.stringify([region, model]))
  const told = await Promise.all(
    [...pools.values()].map(async (held) => {
      const [{ region, model }] = held as [OpenLeaseRef]
      try {
        const asked = held.map(({ lease, agent }) => ({ lease, agent }))
        return await poolActor(env, { id: region, location_hint: null }, model).positions(asked)
      } catch (error) {
        logFailure('pool_unreachable', error, { region, model })
        return []
      }
    }),
  )
  return new Map(told.flat().map((position) => [position.lease, position]))
}
