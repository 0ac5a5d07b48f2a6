/**
 * `npm run bench:front`: what the agent's queue is worth in front of a server that orders nothing, through the whole control plane.
 * The server is simulated: it has a fixed number of seats, gives each of their calls a token a step, and serves first come, first
 * served (gpu-agent/src/fronts/attached/testing/plain-server.ts). It computes nothing, so other work on the machine hardly counts.
 * `direct` sends it every call as it comes; `queue-NAME` holds them in the agent's queue, which learns how many to let through.
 * What the queue is worth before a real vLLM is in `bench:vllm`.
 *
 * `--llama-server` plays the same programs before llama.cpp's own server (front/llama-server.ts), which computes.
 * `--provider` plays agents at a hosted API with limits instead (front/provider-part.ts).
 */
import { writeFileSync } from 'node:fs'
import { fail, flagsOrExit } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import type { PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import { PlainServer } from '../../gpu-agent/src/fronts/attached/testing/plain-server.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { mean } from '../../simulator/statistics.ts'
import { startTestbed, type Testbed } from '../testbed/testbed.ts'
import { agentPrograms, agentTrace } from './front/agents.ts'
import { LlamaServer } from './front/llama-server.ts'
import type { ProviderFigures } from './front/provider-figures.ts'
import { PROVIDER_MODEL, playProviderPart, type SwitchyardArm } from './front/provider-part.ts'
import { latenciesOf } from './latencies.ts'
import { playPrograms } from './vllm/play-programs.ts'
import { drawShapes, tokensOf, withArrivals } from './workload.ts'

const HELP = `What the agent's queue is worth in front of a server with seats and a queue of its own, through the whole control plane.

  npm run bench:front -- [flags]

  --seeds 3        draws of the workload (chats); each arm plays each
  --programs 80    of a run
  --seats 8        of the server
  --step-ms 20     in which it gives each call a token
  --load 1.5       arrival rate as a multiple of what it serves
  --provider       instead: agents that begin at once, at a provider with 60 requests and 200,000 tokens per minute, through the
                   openai package with 2 and 10 retries, LiteLLM's proxy (if --litellm names its command), and Switchyard,
                   also with classes that know as many other agents (warm); with --seeds 1 and --programs 60 unless given;
                   takes about 9 minutes a seed and little CPU
  --llama-server FILE   instead of the simulated server: llama.cpp's own (docs/any-engine.md says how to build it), with --seats slots,
                   one core and SmolLM2-135M; --programs 24 unless given, takes about 2 minutes a seed (4 with 60) and needs an idle machine
  --trace FILE     write the programs that --provider draws for the seed --seeds as a trace for npm run simulate, and play nothing
  --litellm FILE   the command litellm of \`pip install 'litellm[proxy]'\`
  --json FILE      all figures
  --help`

const REGION = 'us-east'
const AGENT = 'us-east-1'
const MODEL = 'plain'
const ALL_AT_ONCE = 4096
const SWITCHYARDS: readonly SwitchyardArm[] = [
  { policy: 'fcfs', warm: false },
  { policy: 'plas', warm: false },
  { policy: 'learned', warm: false },
  { policy: 'learned', warm: true },
]
const ARMS: readonly { name: string; policy: PolicyName; flags: Record<string, string | number> }[] = [
  { name: 'direct', policy: 'fcfs', flags: { seats: ALL_AT_ONCE } },
  { name: 'queue-fcfs', policy: 'fcfs', flags: {} },
  { name: 'queue-plas', policy: 'plas', flags: {} },
  { name: 'queue-learned', policy: 'learned', flags: {} },
]

interface FrontRun extends ReturnType<typeof latenciesOf> {
  name: string
  seed: number
  /** The most calls that the server had at once. */
  open_max: number | null
}

interface Server {
  url: string
  close(): Promise<void>
  /** Null: it does not tell. */
  open_max: number | null
}

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:front', HELP, {
  ...{ seeds: TEXT, programs: TEXT, seats: { ...TEXT, default: '8' }, litellm: TEXT },
  ...{ 'llama-server': TEXT, trace: TEXT },
  provider: { type: 'boolean', default: false },
  ...{ 'step-ms': { ...TEXT, default: '20' }, load: { ...TEXT, default: '1.5' }, json: TEXT },
})
const agents = values.provider || values.trace !== undefined
const given = {
  seeds: values.seeds ?? (values.provider || values['llama-server'] !== undefined ? '1' : '3'),
  programs: values.programs ?? (agents ? '60' : values['llama-server'] === undefined ? '80' : '24'),
  seats: values.seats,
  'step-ms': values['step-ms'],
}
for (const [flag, value] of Object.entries(given)) {
  if (!/^[1-9]\d{0,4}$/.test(value)) fail(`--${flag} must be a whole number above 0, not ${value}`)
}
const load = Number(values.load)
if (!(load > 0 && load <= 100)) fail(`--load must be a number above 0 and at most 100, not ${values.load}`)
const [seeds, programs, seats, step_ms] = Object.values(given).map(Number) as [number, number, number, number]

if (values.trace !== undefined) {
  writeFileSync(values.trace, agentTrace(agentPrograms(seeds, programs)))
  process.exit(0)
}
if (values.provider) {
  await playProvider()
  process.exit(0)
}

const bed = await startTestbed({ name: 'front', regions: [REGION], model: MODEL, flags: { 'context-tokens': 32_768 } })
const runs: FrontRun[] = []
// Kinds whose calls can be held to their lengths.
const kind = values['llama-server'] === undefined ? 'vllm' : 'llama.cpp'
const context_tokens = values['llama-server'] === undefined ? 32_768 : 4096
/** Of llama.cpp on one core with four slots or more. */
const LLAMA_TOKENS_PER_S = 120
const tokens_per_s = values['llama-server'] === undefined ? (seats * 1000) / step_ms : LLAMA_TOKENS_PER_S
try {
  for (let seed = 1; seed <= seeds; seed++) {
    for (const arm of ARMS) {
      process.stderr.write(`${arm.name}, seed ${seed}\n`)
      runs.push(await play(arm, seed))
      if (values.json !== undefined) {
        writeFileSync(values.json, `${JSON.stringify({ seats, step_ms, programs, load, runs }, null, 1)}\n`)
      }
    }
  }
} finally {
  await bed.remove()
}
console.log(report())

async function startServer(): Promise<Server> {
  if (values['llama-server'] === undefined) {
    return new PlainServer({ models: [MODEL], seats, step_ms, completions: true }).listen()
  }
  const { path } = await findOrFetchModel({})
  const server = await LlamaServer.start(values['llama-server'], path, MODEL, seats)
  return { url: server.url, close: () => server.close(), open_max: null }
}

async function playProvider(): Promise<void> {
  const figures: ProviderFigures[] = []
  for (let seed = 1; seed <= seeds; seed++) {
    // Of each seed: a control plane that has served a seed before knows its classes.
    const beds: Testbed[] = []
    try {
      for (const [index, { policy }] of SWITCHYARDS.entries()) {
        const named = { name: `front-${policy}-${index}`, regions: [REGION], model: PROVIDER_MODEL }
        beds.push(await startTestbed({ ...named, flags: { 'context-tokens': 131_072 } }))
      }
      const part = { programs, seed, switchyards: SWITCHYARDS, litellm: values.litellm ?? null }
      await playProviderPart(part, beds, (of_arm) => {
        figures.push(of_arm)
        if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ provider: figures }, null, 1)}\n`)
      })
    } finally {
      for (const one of beds) await one.remove()
    }
  }
  console.log(providerReport(figures))
}

function providerReport(figures: readonly ProviderFigures[]): string {
  const right = (title: string, cell: (row: ProviderFigures) => string): Column<ProviderFigures> => ({
    ...{ title, align: 'right', cell },
  })
  return textTable<ProviderFigures>(
    [
      { title: '', cell: ({ arm }) => arm },
      right('seed', ({ seed }) => `${seed}`),
      right('finished', ({ finished, programs: all }) => `${finished} of ${all}`),
      right('wasted tokens', ({ wasted_tokens }) => `${wasted_tokens}`),
      right('mean completion, s', ({ completion_s }) => completion_s.mean.toFixed(0)),
      right('p95, s', ({ completion_s }) => completion_s.p95.toFixed(0)),
      right('makespan, s', ({ makespan_s }) => makespan_s.toFixed(0)),
      right('refused', ({ refused }) => `${refused}`),
      right('quota used', ({ quota_share }) => quota_share.toFixed(3)),
    ],
    figures,
  )
}

async function play({ name, policy, flags }: (typeof ARMS)[number], seed: number): Promise<FrontRun> {
  const server = await startServer()
  const attached = { engine: 'openai', url: server.url, kind, policy, 'context-tokens': context_tokens, ...flags }
  const agent = bed.agent({ id: AGENT, region: REGION, flags: { ...attached, 'drain-limit-s': 5 } })
  const shapes = drawShapes(seed, programs)
  const span_s = tokensOf(shapes).output_tokens / tokens_per_s / load
  try {
    await agent.start()
    const endpoint = { url: bed.url, api_key: bed.secrets.apiKey, model: MODEL }
    const played = await playPrograms(endpoint, withArrivals(shapes, seed, span_s), {
      run: `${name}-${seed}`,
      app: () => 'chats',
    })
    return { name, seed, open_max: server.open_max, ...latenciesOf('chats', played) }
  } finally {
    await agent.end()
    await server.close()
  }
}

function report(): string {
  const of = (name: string): FrontRun[] => runs.filter((run) => run.name === name)
  const ratios = (name: string, figure: (run: FrontRun) => number): number[] =>
    of(name).map((run, index) => figure(run) / figure(of('direct')[index] as FrontRun))
  const right = (title: string, cell: (name: string) => string): Column<string> => ({ title, align: 'right', cell })
  const ratio = (title: string, figure: (run: FrontRun) => number): Column<string> =>
    right(title, (name) => {
      const by_seed = ratios(name, figure)
      return `${mean(by_seed).toFixed(2)} (${by_seed.map((value) => value.toFixed(2)).join(' ')})`
    })
  return textTable<string>(
    [
      { title: '', cell: (name) => name },
      right('ms/token', (name) => mean(of(name).map((run) => run.program_token_latency_ms.mean)).toFixed(0)),
      ratio('÷ direct (by seed)', (run) => run.program_token_latency_ms.mean),
      ratio('makespan ÷ direct', (run) => run.makespan_s),
      right('calls at the server at most', (name) =>
        of(name)
          .map(({ open_max }) => open_max ?? '')
          .join(' '),
      ),
    ],
    ARMS.map(({ name }) => name),
  )
}
