/** Run ids: core's runName with a random suffix, so that a new run under an ended id needs no lookup, and its tenant's shard. */
import { runName } from '../core/program/process-table.ts'
import { FIRST_TENANT_SHARD, inShard } from '../core/program/tenant-shards.ts'

export function newRunId(now_ms: number, shard: number = FIRST_TENANT_SHARD): string {
  const words = crypto.getRandomValues(new Uint32Array(2))
  return inShard(runName(now_ms, Array.from(words, (word) => word.toString(36)).join('')), shard)
}

/** When the run started, by its id; `fallback_ms` where the id is not one of ours. */
export function runStartMs(run: string, fallback_ms: number): number {
  const [start] = run.split('-')
  const ms = Number.parseInt(start ?? '', 36)
  return Number.isSafeInteger(ms) && ms > 0 && ms <= fallback_ms ? ms : fallback_ms
}
