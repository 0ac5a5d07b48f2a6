/** Engines by region, with their seats, queue and KV cache. */
import type { LivePool } from '../../src/protocol/live.ts'
import { count, share } from '../format.ts'
import { Meter } from '../parts/states.tsx'

export function Pools({ pools }: { pools: readonly LivePool[] }) {
  const shown = pools.filter(({ engines, reachable }) => engines.length > 0 || !reachable)
  if (shown.length === 0) {
    return <p class="state">No engine is linked. Calls get 503 until an agent runs: npm run cli -- agents --help</p>
  }
  return (
    <section class="pools" aria-label="Engines by region">
      {shown.map((pool) => (
        <div class="pool" key={`${pool.region} ${pool.model}`}>
          <h2>
            {pool.region} <small>{pool.model}</small>
          </h2>
          {pool.reachable ? null : <p class="failure">The pool does not answer.</p>}
          {pool.engines.map((engine) => (
            <div class="engine-line" key={engine.engine}>
              <span>
                {engine.engine}
                {engine.state === 'ready' ? '' : `, ${engine.state}`}
              </span>
              <Meter
                part={engine.running}
                whole={engine.seats}
                label={`${engine.running}/${engine.seats} seats, ${engine.waiting + engine.leases_since_report} waiting`}
              />
              <Meter
                part={engine.kv_used_tokens}
                whole={engine.kv_capacity_tokens}
                label={`KV ${share(engine.kv_used_tokens, engine.kv_capacity_tokens)} of ${count(engine.kv_capacity_tokens)} tokens`}
              />
            </div>
          ))}
        </div>
      ))}
    </section>
  )
}
