/**
 * `npm run bench:scale`: a pool of many emulated engines on one machine, in one shard and in several. Programs of a few calls run over
 * the real Worker, PoolActors and agents; what their clients waited and what the engines had in their cache is compared. Shapes take
 * turns, so that what else the machine does falls on all of them.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import * as z from 'zod'
import { flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { textTable } from '../../cli/table.ts'
import { agentIdsOf } from '../../ops/workerd/agent-ids.ts'
import { quantile } from '../../simulator/statistics.ts'
import { FIRST_SHARD } from '../../src/core/pool/pool-shards.ts'
import { ENGINES_PER_AGENT_MAX } from '../../src/protocol/link.ts'
import { startTestbed } from '../testbed/testbed.ts'
import { leaseCost, shardChoiceCost } from './scale-decisions.ts'

const HELP = `Calls to a pool of many emulated engines, in one shard and in several.

  npm run bench:scale -- [flags]

  --engines 64      of the pool
  --agents 8        that they are spread over; each is a process
  --per-shard 16,64 engines of one shard: a run for each
  --seconds 20      of each run
  --clients 16      each runs one program after the other
  --decisions       only the CPU of a lease and of the choice of a shard, by the number of engines
  --json FILE
  --help`

const REGION = 'us-east'
const MODEL = 'scale'
const CALLS_PER_PROGRAM = 6
const OUTPUT_TOKENS = 8
/** About 600 tokens, and as much with each turn. */
const TURN = 'What came back from the tool is a text of some length. '.repeat(40)
const AGENT_READY_MS = 180_000
const WARM_UP_SHARE = 0.2

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:scale', HELP, {
  engines: { ...TEXT, default: '64' },
  agents: { ...TEXT, default: '8' },
  'per-shard': { ...TEXT, default: '16,64' },
  seconds: { ...TEXT, default: '20' },
  clients: { ...TEXT, default: '16' },
  decisions: { type: 'boolean', default: false },
  json: TEXT,
})
const agents = wholeNumber('--agents', values.agents, 1, 64)
const engines = wholeNumber('--engines', values.engines, agents, agents * ENGINES_PER_AGENT_MAX)
const seconds = wholeNumber('--seconds', values.seconds, 1, 600)
const clients = wholeNumber('--clients', values.clients, 1, 1_000)
const sizes = values['per-shard'].split(',').map((size) => wholeNumber('--per-shard', size, 1, 4_096))

const Answer = z.object({
  usage: z.object({
    prompt_tokens: z.number(),
    prompt_tokens_details: z.object({ cached_tokens: z.number() }).optional(),
  }),
})
const Pools = z.object({ pools: z.array(z.object({ engines: z.array(z.object({ agent: z.string() })) })) })

interface Run {
  per_shard: number
  shards: number
  engines: number
  linked_s: number
  calls: number
  failed: number
  calls_per_s: number
  mean_ms: number
  p50_ms: number
  p99_ms: number
  cached_share: number
  load_1min: number
}

if (values.decisions) {
  const costs = [8, 64, 256, 1_024, 4_096].map(leaseCost)
  const choices = [64, 1_000, 4_096].map((count) => ({ engines: count, ...shardChoiceCost(count) }))
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ leases: costs, choices }, null, 2)}\n`)
  for (const cost of [...costs, ...choices]) console.log(JSON.stringify(cost))
} else {
  const runs: Run[] = []
  for (const size of sizes) runs.push(await played(size))
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ runs }, null, 2)}\n`)
  const shown = [
    'per_shard',
    'shards',
    'engines',
    'linked_s',
    'calls_per_s',
    'failed',
    'mean_ms',
    'p50_ms',
    'p99_ms',
  ] as const
  const rest = ['cached_share', 'load_1min'] as const
  const digits = (name: string) => (name === 'cached_share' ? 3 : 1)
  console.log(
    textTable(
      [...shown, ...rest].map((name) => ({
        title: name,
        align: 'right' as const,
        cell: (run: Run) => run[name].toFixed(digits(name)),
      })),
      runs,
    ),
  )
}

async function played(per_shard: number): Promise<Run> {
  process.env.POOL_SHARD_ENGINES = `${per_shard}`
  const testbed = await startTestbed({ name: 'scale', regions: [REGION], agents_per_region: agents, model: MODEL })
  try {
    const began_ms = performance.now()
    const ids = agentIdsOf(REGION, agents)
    const count = (at: number) => Math.floor(((at + 1) * engines) / agents) - Math.floor((at * engines) / agents)
    await Promise.all(
      ids.map((id, at) =>
        testbed
          .agent({
            ...{ id, region: REGION, ready_timeout_ms: AGENT_READY_MS },
            flags: { engine: 'emulated', profile: 'fast', 'context-tokens': 8192, engines: count(at) },
          })
          .start(),
      ),
    )
    const key = testbed.secrets.apiKey
    const linked_s = (performance.now() - began_ms) / 1000
    const told = await ask(`${testbed.url}/admin/v1/pools?region=${REGION}&model=${MODEL}`, testbed.secrets.adminKey)
    const known = Pools.parse(told).pools.flatMap((pool) => pool.engines)
    const load = await callsOf(testbed.url, key)
    return { per_shard, shards: shardsOf(per_shard, count), engines: known.length, linked_s, ...load }
  } finally {
    await testbed.remove()
  }
}

/** As the first shard places them, one after the other. */
function shardsOf(per_shard: number, count: (at: number) => number): number {
  const filled: number[] = []
  for (let at = 0; at < agents; at += 1) {
    const shard = filled.findIndex((full) => full + count(at) <= per_shard)
    if (shard === -1) filled.push(count(at))
    else filled[shard] = (filled[shard] ?? 0) + count(at)
  }
  return Math.max(FIRST_SHARD + 1, filled.length)
}

async function callsOf(url: string, key: string): Promise<Omit<Run, 'per_shard' | 'shards' | 'engines' | 'linked_s'>> {
  const began_ms = performance.now()
  const counted_ms = began_ms + WARM_UP_SHARE * seconds * 1000
  const end_ms = began_ms + seconds * 1000
  const waits_ms: number[] = []
  const tokens = { prompt: 0, cached: 0 }
  let failed = 0
  const call = async (program: string, turns: number): Promise<void> => {
    const sent_ms = performance.now()
    const content = `${program} ${TURN.repeat(turns)}`
    try {
      const answer = await ask(`${url}/v1/chat/completions`, key, {
        headers: { 'X-Program-Id': program },
        body: { model: MODEL, max_tokens: OUTPUT_TOKENS, messages: [{ role: 'user', content }] },
      })
      if (sent_ms < counted_ms) return
      const { usage } = Answer.parse(answer)
      waits_ms.push(performance.now() - sent_ms)
      tokens.prompt += usage.prompt_tokens
      tokens.cached += usage.prompt_tokens_details?.cached_tokens ?? 0
    } catch {
      // Counted: a load test goes on.
      failed += 1
    }
  }
  let programs = 0
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (performance.now() < end_ms) {
        programs += 1
        const program = `p${programs}`
        for (let turns = 1; turns <= CALLS_PER_PROGRAM && performance.now() < end_ms; turns += 1)
          await call(program, turns)
      }
    }),
  )
  const span_s = (performance.now() - counted_ms) / 1000
  return {
    ...{ calls: waits_ms.length, failed, calls_per_s: waits_ms.length / span_s },
    mean_ms: waits_ms.reduce((sum, wait_ms) => sum + wait_ms, 0) / Math.max(1, waits_ms.length),
    ...{ p50_ms: quantile(waits_ms, 0.5), p99_ms: quantile(waits_ms, 0.99) },
    cached_share: tokens.cached / Math.max(1, tokens.prompt),
    load_1min: loadavg()[0] ?? 0,
  }
}

async function ask(
  url: string,
  key: string,
  post?: { headers: Record<string, string>; body: object },
): Promise<unknown> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...post?.headers }
  const init = post === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(post.body) }
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response.json()
}
