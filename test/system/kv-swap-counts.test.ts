/**
 * A call whose KV was swapped: its client, its program in the process table, its agent's record and its agent's metrics say
 * the same of it. One seat and one slot, so that a new program takes both from a long one.
 */
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { clientCall } from '../../lab/chaos/client.ts'
import { readProgram } from '../../lab/chaos/ledger.ts'
import { startTestbed, type Testbed } from '../../lab/testbed/testbed.ts'
import type { UsageExtension } from '../../src/protocol/index.ts'
import { reconciled } from './support/fleet-calls.ts'

const MODEL = 'emulated-8b'
const AGENT = 'us-east-1'
/** About 11 ms each: seconds are left when the other call comes. */
const LONG_TOKENS = 600
/** By then it has used up its first quantum, 10 tokens. */
const TOKENS_BEFORE_SHORT = 100

let testbed: Testbed
let agent_url: string
beforeAll(async () => {
  testbed = await startTestbed({ name: 'kv-swap', regions: ['us-east'], model: MODEL })
  const flags = { engine: 'emulated', profile: MODEL, seats: 1, slots: 1, 'context-tokens': 4096 }
  const { ready } = await testbed.agent({ id: AGENT, region: 'us-east', flags }).start()
  agent_url = String(ready.url)
})
afterAll(() => testbed.remove())

async function usageOf(
  program: string,
  output_tokens: number,
  onText: (text: string) => void = () => undefined,
): Promise<UsageExtension> {
  const { url, secrets, model } = testbed
  const decoder = new TextDecoder()
  const ended = await clientCall({
    ...{ url, api_key: secrets.apiKey, model, program, prompt: `The work of ${program}.`, output_tokens, stream: true },
    onBytes: (bytes) => onText(decoder.decode(bytes, { stream: true })),
  })
  if (ended.end !== 'completed') throw new Error(`the call of ${program} ended as ${ended.end}`)
  return ended.usage.switchyard as unknown as UsageExtension
}

it('is counted alike by the client, the process table, the record and the metrics', async () => {
  const { promise: runs, resolve } = Promise.withResolvers<void>()
  let chunks = 0
  const long = usageOf('long', LONG_TOKENS, (text) => {
    chunks += text.split('data: ').length - 1
    if (chunks > TOKENS_BEFORE_SHORT) resolve()
  })
  await runs
  const short = await usageOf('short', 8)
  const { preemptions, swapped_out_tokens, swapped_in_tokens, recomputed_tokens, swap_s } = await long
  expect(preemptions).toBeGreaterThan(0)
  expect(swapped_out_tokens).toBeGreaterThanOrEqual(TOKENS_BEFORE_SHORT)
  expect([swapped_in_tokens, recomputed_tokens]).toEqual([swapped_out_tokens, 0])
  expect(swap_s).toBeGreaterThan(0)
  expect(short).toMatchObject({ swapped_out_tokens: 0, swapped_in_tokens: 0, swap_s: 0 })

  const tenant = { tenant: 'local', apiKey: testbed.secrets.apiKey }
  const agents = [{ id: AGENT, outbox: path.join(testbed.place.agent(AGENT), 'outbox.sqlite') }]
  const settled = { agents, fetch: testbed.fetch.bind(testbed) }
  await reconciled(settled, [tenant], ['long', 'short'])
  const read = await readProgram(settled, tenant, 'long')
  const told = { swapped_out_tokens, swapped_in_tokens, recomputed_tokens, swap_s }
  expect(read).toMatchObject({ summary: told, calls: [{ leases: [told] }] })
  const metrics = await (await fetch(`${agent_url}/metrics`)).text()
  const counted = `switchyard_agent_kv_tokens_total{engine="${AGENT}-e0",kind="swapped_out"} ${swapped_out_tokens}`
  expect(metrics).toContain(counted)
})
