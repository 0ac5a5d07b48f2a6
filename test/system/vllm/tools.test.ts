/** Contexts of programs whose tools run, on a real vLLM through the whole system: what was decided reaches the API with the call. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { RunningVllm } from './running-vllm.ts'

const INSTALL_AND_START_MS = 20 * 60_000
/** Blocks have 32 tokens, and whole ones alone are handled. */
const PROMPT = `Say something about ${'rain and wind and '.repeat(90)}sun.`

let vllm: RunningVllm
beforeAll(async () => {
  vllm = await RunningVllm.start('lamps')
}, INSTALL_AND_START_MS)
afterAll(async () => {
  // Undefined where it did not start.
  await (vllm as RunningVllm | undefined)?.remove()
})

interface Kv {
  handling: string
  reason: string
  waste_byte_s: { preserve: number; discard: number; swap: number | null }
}

async function shown<T>(path: string): Promise<T> {
  return (await (await vllm.system.fetch(path)).json()) as T
}

it('is told with the call, and the program finds its context when it returns', async () => {
  const first = await vllm.ask('returns', { content: PROMPT, max_tokens: 8 })
  await vllm.settled('returns')
  const { activity, tools } = await shown<{ activity: string; tools: { kv: Kv | null }[] }>('/v1/programs/returns')
  expect(activity).toBe('acting')
  // Nothing was learned of its tools: it is preserved at first. Without --kv-swap-gib it cannot be moved.
  const kv = { handling: 'preserve', reason: 'not_foreseen', waste_byte_s: { preserve: 0, swap: null } }
  expect(tools).toMatchObject([{ kv }])
  expect(tools[0]?.kv?.waste_byte_s.discard).toBeGreaterThan(0)

  const second = await vllm.ask('returns', { content: PROMPT, max_tokens: 8 })
  expect(second.text).toBe(first.text)
  const cached_tokens = second.usage.prompt_tokens_details?.cached_tokens ?? 0
  expect(cached_tokens).toBeGreaterThan(0.8 * second.usage.prompt_tokens)
  await vllm.settled('returns')
  const { data } = await shown<{ data: { kv: Kv | null }[] }>('/v1/programs/returns/calls')
  expect(data[0]).toMatchObject({ kv })
  expect((await vllm.counts()).failures).toBe(0)
})
