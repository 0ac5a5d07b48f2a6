/** The whole system in front of a hosted API with limits and two keys, as `npm run up` starts it, driven by the `openai` package. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ScriptedProvider } from '../../gpu-agent/src/fronts/attached/testing/provider/scripted-provider.ts'
import { reconciled } from './support/fleet-calls.ts'
import { System } from './support/system.ts'

const KEYS = ['sk-hosted-one-5b1e', 'sk-hosted-two-c88d']

describe('in front of a hosted API with limits', () => {
  let provider: ScriptedProvider
  let system: System

  beforeAll(async () => {
    provider = await new ScriptedProvider({
      ...{ keys: KEYS, shape: 'window', ttft_s: 0.05, words_per_s: 500, faults: { overloaded: 0.05 } },
      limits: [{ quantity: 'requests', amount: 5, per_s: 1 }],
    }).listen()
    const [HOSTED_ONE, HOSTED_TWO] = KEYS
    Object.assign(process.env, { HOSTED_ONE, HOSTED_TWO })
    const limits = ['--limit', 'requests=5/s,tokens=20k/min']
    const flags = ['--url', `${provider.url}/v1`, '--key-env', 'HOSTED_ONE,HOSTED_TWO', ...limits]
    system = await System.start({ engine: 'openai', flags })
  }, 200_000)
  afterAll(async () => {
    await system?.remove()
    await provider?.close()
  })

  const client = (program: string): OpenAI => system.client({ headers: { 'X-Program-Id': program } })
  const ask = (content: string) => ({
    ...{ model: 'hosted', max_tokens: 4 },
    messages: [{ role: 'user' as const, content }],
  })

  it('clients without retries are all served, by both keys, and every record is its ledger', async () => {
    const programs = Array.from({ length: 30 }, (_, index) => `hosted-${index}`)
    const run = async (program: string): Promise<void> => {
      for (const turn of ['one', 'two']) await client(program).chat.completions.create(ask(`${turn} ${program}`))
    }
    // `up` has made a call itself.
    const before = provider.calls.length
    await Promise.all(programs.map(run))
    const calls = provider.calls.slice(before)
    const served = KEYS.map((key) => calls.filter((call) => call.key === key && call.whole).length)
    expect(served.reduce((sum, of_key) => sum + of_key, 0)).toBe(60)
    expect(Math.min(...served), 'each key has a fair part').toBeGreaterThan(15)
    const refused = calls.filter(({ status }) => status === 429).length
    expect(refused, 'paced, not retried').toBeLessThan(10)
    const found = { agents: system.agents, fetch: system.fetch.bind(system) }
    await reconciled(found, [{ tenant: 'local', apiKey: system.dev.apiKey }], programs)
  })

  it('a call that no limit has room for is refused by name', async () => {
    const call = client('large').chat.completions.create(ask('x'.repeat(200_000)))
    await expect(call).rejects.toMatchObject({
      status: 400,
      code: expect.stringMatching(/call_exceeds_limit|context_length/),
    })
  })

  it('no key is in anything that was written: state, logs, records, errors', () => {
    const files = readdirSync(system.dataDir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
    expect(files.length).toBeGreaterThan(5)
    for (const file of files) {
      const bytes = readFileSync(path.join(file.parentPath, file.name))
      for (const key of KEYS) expect(bytes.includes(key), `${file.name} has a key of the provider`).toBe(false)
    }
    expect(system.agentLog().filter(({ event }) => event === 'limits_known').length).toBeGreaterThanOrEqual(2)
  })
})
