/** Contexts of programs whose tools run, on a real vLLM through the whole system: what was decided reaches the API with the call. */
import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { sharedMemoryOf } from '../../../gpu-agent/src/fronts/vllm/process/process-group.ts'
import { isAlive } from '../../../ops/system/processes.ts'
import { vllmForTests } from '../../system/vllm/running-vllm.ts'

/** Blocks have 32 tokens, and whole ones alone are handled. */
const PROMPT = `Say something about ${'rain and wind and '.repeat(90)}sun.`
/** It shares no block with the other, so its context is its program's own. */
const OTHER_PROMPT = `Tell me of ${'snow and fog and '.repeat(90)}ice.`

const running = vllmForTests('lamps')

interface Kv {
  handling: string
  reason: string
  waste_byte_s: { preserve: number; discard: number; swap: number | null }
}

async function shown<T>(path: string): Promise<T> {
  return (await (await running().system.fetch(path)).json()) as T
}

it('is told with the call, and the program finds its context when it returns', async () => {
  const first = await running().ask('returns', { content: PROMPT, max_tokens: 8 })
  await running().settled('returns')
  const { activity, tools } = await shown<{ activity: string; tools: { kv: Kv | null }[] }>('/v1/programs/returns')
  expect(activity).toBe('acting')
  // Nothing was learned of its tools: it is preserved at first. Without --kv-swap-gib it cannot be moved.
  const kv = { handling: 'preserve', reason: 'not_foreseen', waste_byte_s: { preserve: 0, swap: null } }
  expect(tools).toMatchObject([{ kv }])
  expect(tools[0]?.kv?.waste_byte_s.discard).toBeGreaterThan(0)

  const second = await running().ask('returns', { content: PROMPT, max_tokens: 8 })
  expect(second.text).toBe(first.text)
  const cached_tokens = second.usage.prompt_tokens_details?.cached_tokens ?? 0
  expect(cached_tokens).toBeGreaterThan(0.8 * second.usage.prompt_tokens)
  await running().settled('returns')
  const { data } = await shown<{ data: { kv: Kv | null }[] }>('/v1/programs/returns/calls')
  expect(data[0]).toMatchObject({ kv })
  expect((await running().counts()).failures).toBe(0)
})

it('kill -9 of vLLM with a context held: the next one holds nothing, and the program computes its context again', async () => {
  // Of a class of its own, of whose tools nothing was learned.
  const start = { id: 'bereft', app: 'bereft' }
  const started = await running().system.fetch('/v1/programs', { method: 'POST', body: JSON.stringify(start) })
  expect(started.status).toBe(201)
  const first = await running().ask('bereft', { content: OTHER_PROMPT, max_tokens: 8 })
  await running().settled('bereft')
  const held = await shown<{ tools: { kv: Kv | null }[] }>('/v1/programs/bereft')
  expect(held.tools).toMatchObject([{ kv: { handling: 'preserve' } }])
  const { pid } = running().state ?? { pid: 0 }
  const epoch = await running().ready('the engine is ready')
  await expect.poll(() => running().toolContexts()).toBeGreaterThan(1)
  const memory = sharedMemoryOf(pid)
  expect(memory).not.toEqual([])

  process.kill(-pid, 'SIGKILL')
  await running().ready('another vLLM serves', epoch)
  expect(isAlive(pid)).toBe(false)
  const second = await running().ask('bereft', { content: OTHER_PROMPT, max_tokens: 8 })
  expect(second.text).toBe(first.text)
  expect(second.usage.prompt_tokens_details?.cached_tokens ?? 0).toBe(0)
  await running().settled('bereft')
  // vLLM writes its metrics a moment after a step.
  await expect.poll(() => running().toolContexts()).toBe(1)
  expect(running().unsettled).toEqual({ open_leases: 0, unacknowledged: 0 })
  const { data } = await shown<{ data: { outcome: string; kv: Kv | null }[] }>('/v1/programs/bereft/calls')
  expect(data.map(({ outcome }) => outcome)).toEqual(['completed', 'completed'])
  expect((await running().counts()).failures).toBe(0)
  // What is killed does not remove its shared memory: its agent does.
  expect(memory.filter((file) => existsSync(file))).toEqual([])
})
