/** What was measured of leases and summed over them, as the API shows it: of a lease, a call, a program, and usage. */
import { z } from '@hono/zod-openapi'
import type { MeasuredSums, StoredMeasurement } from '../protocol/index.ts'

export const Seconds = z.number().nonnegative()
export const Tokens = z.number().int().nonnegative()

export const MeasuredShape = {
  prompt_tokens: Tokens,
  cached_tokens: Tokens,
  output_tokens: Tokens,
  resumed_tokens: Tokens.openapi({ description: 'Output of engines that failed, computed again to go on from it' }),
  service_wall_s: Seconds,
  service_modelled_s: Seconds,
  wait_s: Seconds,
  preemptions: Tokens,
  swapped_out_tokens: Tokens.openapi({ description: 'KV that preemptions moved out of the cache' }),
  swapped_in_tokens: Tokens.openapi({ description: 'KV that came back from there' }),
  recomputed_tokens: Tokens.openapi({ description: 'KV that preemptions lost and that was computed again' }),
  swap_s: Seconds.openapi({ description: 'For how long engine steps waited for KV to be moved' }),
}

/** How `wait_s` divides where a server is called that the agent does not run. */
export const WaitShape = {
  queue_wait_s: Seconds.nullable().openapi({
    description:
      "Of wait_s, in the agent's queue before a server that it does not run. Null: the engine orders calls itself, and nothing is told apart",
  }),
  server_wait_s: Seconds.nullable().openapi({ description: 'Of wait_s, the rest: at that server' }),
}

export function waitJson(of: readonly Pick<StoredMeasurement, 'wait_us' | 'queue_wait_us'>[]) {
  let known = false
  let [queue_us, server_us] = [0, 0]
  for (const { wait_us, queue_wait_us } of of) {
    if (queue_wait_us === undefined) continue
    known = true
    queue_us += queue_wait_us
    server_us += wait_us - queue_wait_us
  }
  return known
    ? { queue_wait_s: seconds(queue_us), server_wait_s: seconds(server_us) }
    : { queue_wait_s: null, server_wait_s: null }
}

export const seconds = (us: number): number => us / 1e6

export function measuredJson(of: MeasuredSums) {
  return {
    prompt_tokens: of.prompt_tokens,
    cached_tokens: of.cached_tokens,
    output_tokens: of.output_tokens,
    resumed_tokens: of.resumed_tokens,
    service_wall_s: seconds(of.service_wall_us),
    service_modelled_s: seconds(of.service_modelled_us),
    wait_s: seconds(of.wait_us),
    preemptions: of.preemptions,
    swapped_out_tokens: of.swapped_out_tokens,
    swapped_in_tokens: of.swapped_in_tokens,
    recomputed_tokens: of.recomputed_tokens,
    swap_s: seconds(of.swap_us),
  }
}
