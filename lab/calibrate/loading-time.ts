/** How long a host takes to start an embedded engine: a child process of the agent, from its fork until its engine is ready. */
import { createFront } from '../../gpu-agent/src/fronts/create-front.ts'
import type { FrontOptions } from '../../gpu-agent/src/fronts/front-options.ts'

const NOTHING = { ledger: () => undefined, status: () => undefined, epoch: () => undefined }

/** Rejects if it cannot start. */
export async function loadingS(
  sizes: Required<Pick<FrontOptions, 'model_path' | 'threads' | 'seats' | 'slots' | 'context_tokens'>>,
): Promise<number> {
  const started_ms = performance.now()
  const front = await createFront(
    { engine: 'embedded', id: 'calibrate', model_id: 'calibrate', policy: 'fcfs', ...sizes },
    NOTHING,
  )
  const loading_s = (performance.now() - started_ms) / 1000
  await front.stop()
  return Number(loading_s.toFixed(2))
}
