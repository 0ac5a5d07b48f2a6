/** Asks engines to cancel the calls of a program that ended. Pools are asked in parallel. */
import type { OpenLeaseRef } from '../core/program/program-state.ts'
import { logFailure } from '../platform/log.ts'
import type { PoolRpc } from './contracts.ts'

/** An engine that cannot be reached finishes its call for nothing. The program has ended anyway. */
export async function cancelLeases(
  open: readonly OpenLeaseRef[],
  poolOf: (region: string, model: string) => PoolRpc,
): Promise<void> {
  const byPool = Map.groupBy(open, ({ region, model }) => JSON.stringify([region, model]))
  await Promise.all(
    [...byPool.values()].map(async (leases) => {
      const [{ region, model }] = leases as [OpenLeaseRef]
      try {
        await poolOf(region, model).cancel(leases.map(({ lease, agent }) => ({ lease, agent })))
      } catch (error) {
        logFailure('cancel_failed', error, { region, model })
      }
    }),
  )
}
