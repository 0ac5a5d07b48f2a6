/** `--preempt resume` over real HTTP: a call with output is stopped for a better one, and its client has the unbroken answer. */
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../../testing/harness.ts'
import { attachFront } from '../testing/attached-front.ts'
import { PlainServer, STORY_PROMPT_TOKENS, storyText } from '../testing/plain-server.ts'
import type { ContinuingChat } from './continuing.ts'

const LLAMA: ContinuingChat = { way: 'last_message', echoes: true, keeps_space: true }
const VLLM: ContinuingChat = { way: 'continue_final_message', echoes: false, keeps_space: true }
/** Longer than STOP_AGE_US by far. */
const TOKENS = 300
const STEP_MS = 10
const usage = { stream_options: { include_usage: true } }

async function attached(continues: ContinuingChat | null, preempt: 'never' | 'resume') {
  const server = await new PlainServer({ seats: 1, step_ms: STEP_MS, continues }).listen()
  onTestFinished(() => server.close())
  // What a server of no known kind does with a client that leaves is not assumed.
  const given = { kind: 'llama.cpp' as const, probe: true, preempt }
  return { server, ...(await attachFront(server.url, { seats: 1 }, given)) }
}

const long = { program: 'long', run: 'long', settled_service_us: 90_000_000, critical_path_us: 90_000_000 }

it.each([
  ['says the text again', LLAMA],
  ['does not', VLLM],
] as const)('a long answer stops for a short one, and goes on: a server that %s', async (_, continues) => {
  const { server, serve, rows } = await attached(continues, 'resume')
  const probes = server.served.length
  const running = serve({ max_tokens: TOKENS, temperature: 0, ...usage }, { ...long, sequence: [1, 0] })
  await until(() => running.sink.chunks.length > 3)
  const better = serve({ max_tokens: 2 }, { program: 'short', run: 'short', sequence: [2, 0] })
  await better.ended
  expect(running.sink.end, 'it has not ended').toBeNull()
  const end = await running.sink.over
  expect(running.sink.text).toBe(storyText(TOKENS))
  expect(running.sink.chunks.filter(({ choices: [choice] }) => choice?.delta?.role !== undefined)).toHaveLength(0)
  expect(server.served.slice(probes)).toHaveLength(3)
  expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'length' })
  const measured = end?.measurement ?? expect.fail('it has no measurement')
  expect(measured).toMatchObject({
    ...{ prompt_tokens: STORY_PROMPT_TOKENS, output_tokens: TOKENS, resumed_tokens: 0, preemptions: 1 },
  })
  expect(measured.recomputed_tokens).toBeGreaterThan(STORY_PROMPT_TOKENS)
  expect(measured.service_wall_us + measured.wait_us).toBe(measured.duration_us)
  const wall_us = rows.filter(({ lease }) => lease === running.lease).reduce((sum, row) => sum + row.wall_us, 0)
  expect(wall_us).toBe(measured.service_wall_us)
  const last = end?.last_chunks.at(-1) as { usage: Record<string, unknown> } | undefined
  expect(last?.usage).toMatchObject({ prompt_tokens: STORY_PROMPT_TOKENS, completion_tokens: TOKENS })
})

it.each([
  ['it was not asked for', LLAMA, 'never'],
  ['the server does not go on with texts', null, 'resume'],
] as const)('a long answer runs to its end where %s', async (_, continues, preempt) => {
  const { server, serve, events } = await attached(continues, preempt)
  const running = serve({ max_tokens: 150, temperature: 0 }, { ...long, sequence: [1, 0] })
  await until(() => running.sink.chunks.length > 3)
  const better = serve({ max_tokens: 2 }, { program: 'short', run: 'short', sequence: [2, 0] })
  await better.ended
  expect(running.sink.end).toMatchObject({
    outcome: 'completed',
    measurement: { preemptions: 0, recomputed_tokens: 0 },
  })
  expect(server.served.length).toBeGreaterThan(2)
  const told = events.find(({ event }) => event === 'server_attached')
  const unknown = told?.event === 'server_attached' ? told.unknown : []
  expect(unknown.some((one) => one.includes('--preempt resume stops nothing'))).toBe(preempt === 'resume')
})
