/** The scheduler's swaps and copies on real tokens: a crowded run says what a run with room for all says. */
import { expect, test } from 'vitest'
import { memoryOf } from '../../memory/backend-memory.ts'
import { createPolicy } from '../../order/policies/index.ts'
import { Scheduler } from '../../scheduler.ts'
import { engineCall, testConfig } from '../../testing/calls.ts'
import type { EngineCall, Measurement, SlotOperation } from '../../types.ts'
import { LlamaBackend } from './llama-backend.ts'
import { describeWithModel, loadRealModel } from './testing/real-model.ts'

const STEP_US = 1000
const SYSTEM = 'You are a patient librarian who answers every question about old books in two short sentences. '
const QUESTIONS = [
  'Who wrote Emma?',
  'What is vellum?',
  'Name a Greek poet.',
  'Why do pages yellow?',
  'What is a folio?',
]

interface Run {
  output: Map<string, number[]>
  measurements: Measurement[]
  operations: SlotOperation[]
}

async function run(
  backend: LlamaBackend,
  calls: readonly EngineCall[],
  seats: number,
  recompute: boolean,
): Promise<Run> {
  const memory = memoryOf(backend, backend.prefill_tokens_per_s, 4096)
  const config = testConfig({
    ...memory,
    // Calls this short are cheaper to compute again than to save; the test is about saving.
    swap: memory.swap === null || recompute ? null : { ...memory.swap, recompute_us_per_token: 1e6 },
    policy: createPolicy({ name: 'plas' }),
    seats,
    slots: backend.slots,
    slot_tokens_max: backend.slot_tokens_max,
    max_step_tokens: 64,
    prefill_chunk_tokens: 32,
  })
  const scheduler = new Scheduler(config)
  const admitted = new Set<string>()
  const done: Run = { output: new Map(), measurements: [], operations: [] }
  let now_us = 0
  for (let step = 0; step === 0 || done.measurements.length < calls.length; step++) {
    // Each call arrives three steps after the one before, and before it in order.
    const call = step % 3 === 0 ? calls[step / 3] : undefined
    if (call !== undefined) scheduler.submit(call, now_us)
    const plan = scheduler.plan(now_us)
    if (plan.work.length === 0) continue
    for (const { lease } of plan.work) {
      if (admitted.has(lease)) continue
      admitted.add(lease)
      backend.admit(calls.find((one) => one.lease === lease) as EngineCall)
    }
    const outcome = await backend.execute(plan)
    // Calls run to their stated length: an end token is a token like any other.
    const sampled = new Map([...outcome.sampled].map(([lease, { token }]) => [lease, { token, end: false }]))
    const { tokens, ended } = scheduler.commit(plan, { ...outcome, sampled }, now_us, now_us + STEP_US)
    now_us += STEP_US
    for (const { lease, token } of tokens) done.output.set(lease, [...(done.output.get(lease) ?? []), token])
    for (const { lease, measurement } of ended) {
      backend.release(lease)
      done.measurements.push(measurement)
    }
    done.operations.push(...plan.operations)
  }
  return done
}

describeWithModel('with fewer slots than calls, on the real model', () => {
  test('greedy output is that of an unpreempted run, swapped, recomputed, or begun from a copied prefix', async () => {
    const { model } = await loadRealModel()
    const calls = QUESTIONS.map((question, index) =>
      engineCall({
        lease: `${index}`,
        prompt: model.tokenize(SYSTEM + question),
        max_output_tokens: 16,
        // A level apart from the next.
        settled_service_us: 2 ** (QUESTIONS.length - index) * 100_000,
      }),
    )
    const sizes = { model, threads: 1, context_tokens: 256 }
    const of = async (slots: number, seats: number, recompute: boolean) => {
      const backend = await LlamaBackend.create({ ...sizes, slots })
      try {
        return await run(backend, calls, seats, recompute)
      } finally {
        await backend.dispose()
      }
    }
    const roomy = await of(QUESTIONS.length, QUESTIONS.length, true)
    expect(roomy.measurements.every(({ preemptions }) => preemptions === 0)).toBe(true)
    for (const tokens of roomy.output.values()) expect(new Set(tokens).size).toBeGreaterThan(3)
    expect(roomy.operations.some(({ op }) => op === 'copy')).toBe(true)
    const swapped = await of(2, 1, false)
    expect(swapped.output).toEqual(roomy.output)
    expect(swapped.measurements.reduce((sum, { swapped_in_tokens }) => sum + swapped_in_tokens, 0)).toBeGreaterThan(0)
    for (const { swapped_out_tokens, swap_us } of swapped.measurements) expect(swap_us > 0).toBe(swapped_out_tokens > 0)
    const recomputed = await of(2, 1, true)
    expect(recomputed.output).toEqual(roomy.output)
    expect(recomputed.operations.some(({ op }) => op === 'save')).toBe(false)
    expect(recomputed.measurements.every(({ swap_us }) => swap_us === 0)).toBe(true)
  })
})
