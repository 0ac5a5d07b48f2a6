/**
 * One whole system with a real vLLM on the CPU, as `up --engine vllm` starts it: one region, one engine, two seats, so that a third
 * call must wait or take a seat. float32, in which greedy output is the same in every batch (in bfloat16 it is not).
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type OpenAI from 'openai'
import { parse } from 'smol-toml'
import { afterAll, beforeAll } from 'vitest'
import type { MemoryPolicyName, PolicyName } from '../../../gpu-agent/engine/order/policies/index.ts'
import { unsettled } from '../../../lab/chaos/ledger.ts'
import { DEVICE_VARIABLE } from '../../../ops/vllm/host.ts'
import { reconciled } from '../support/fleet-calls.ts'
import { eventually, System } from '../support/system.ts'

export const SEATS = 2
/** A minute on two idle cores; four minutes were seen on two that ran three more of them. */
export const START_MS = 540_000
const INSTALL_AND_START_MS = 20 * 60_000
const SETTLE_MS = 60_000
const VLLM_ARGS = '--dtype float32 --enable-auto-tool-choice --tool-call-parser hermes'

export interface Extension {
  service_s: number
  service_wall_s: number
  wait_s: number
  preemptions: number
  engine: string
  region: string
  emulated: boolean
}

export interface Answer {
  text: string
  finish: string | null
  usage: OpenAI.CompletionUsage
  switchyard: Extension
}

export interface Ask {
  content: string
  max_tokens: number
  stream?: boolean
  stop?: string[]
  signal?: AbortSignal
  /** Of a stream. */
  headers?: Record<string, string>
  onText?: (text: string) => void
}

/** What the agent keeps of its vLLM for the agent after it. */
export interface VllmState {
  pid: number
  port: number
  api_key: string
}

export class RunningVllm {
  readonly system: System
  readonly #metadata: string

  private constructor(system: System, metadata: string) {
    this.system = system
    this.#metadata = metadata
  }

  static async start(policy: PolicyName | MemoryPolicyName = 'plas'): Promise<RunningVllm> {
    process.env[DEVICE_VARIABLE] = 'cpu'
    const metadata = pluginMetadata()
    process.env.PYTHONPATH = metadata
    const flags = ['--seats', String(SEATS), '--vllm-args', VLLM_ARGS, '--policy', policy]
    return new RunningVllm(await System.start({ engine: 'vllm', flags }), metadata)
  }

  async remove(): Promise<void> {
    await this.system.remove()
    rmSync(this.#metadata, { recursive: true, force: true })
  }

  client(program: string): OpenAI {
    return this.system.client({ headers: { 'X-Program-Id': program } })
  }

  /** One greedy call of a program. */
  ask(program: string, ask: Ask): Promise<Answer> {
    return ask.stream ? this.#streamed(program, ask) : this.#whole(program, ask)
  }

  async #whole(program: string, { content, max_tokens, stop, signal }: Ask): Promise<Answer> {
    const answer = await this.client(program).chat.completions.create(
      { ...this.#request(content, max_tokens, stop), stream: false },
      signal === undefined ? {} : { signal },
    )
    const choice = answer.choices[0]
    if (choice === undefined || answer.usage === undefined) throw new Error(`no answer: ${JSON.stringify(answer)}`)
    return answerOf(choice.message.content ?? '', choice.finish_reason, answer.usage)
  }

  async #streamed(program: string, { content, max_tokens, stop, signal, headers = {}, onText }: Ask): Promise<Answer> {
    const stream = await this.client(program).chat.completions.create(
      { ...this.#request(content, max_tokens, stop), stream: true, stream_options: { include_usage: true } },
      signal === undefined ? { headers } : { headers, signal },
    )
    let text = ''
    let finish: string | null = null
    let usage: OpenAI.CompletionUsage | null = null
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      finish = chunk.choices[0]?.finish_reason ?? finish
      usage = chunk.usage ?? usage
      onText?.(text)
    }
    if (usage === null) throw new Error(`the stream of ${program} ended without usage after ${JSON.stringify(text)}`)
    return answerOf(text, finish, usage)
  }

  #request(content: string, max_tokens: number, stop: string[] | undefined) {
    const messages = [{ role: 'user' as const, content }]
    return {
      model: this.system.dev.model,
      messages,
      max_tokens,
      temperature: 0,
      ...(stop === undefined ? {} : { stop }),
    }
  }

  /** Every lease has one record, every record is acknowledged, and each program's service is its records' and the ledger's. */
  async settled(...programs: string[]): Promise<void> {
    const { system } = this
    const tenant = { tenant: 'local', apiKey: system.dev.apiKey }
    const settled = { agents: system.agents, fetch: system.fetch.bind(system) }
    await reconciled(settled, [tenant], programs, SETTLE_MS)
  }

  get unsettled(): ReturnType<typeof unsettled> {
    return unsettled({ agents: this.system.agents })
  }

  get agentPid(): number {
    const [agent] = this.system.dev.agents
    if (agent === undefined) throw new Error('no agent')
    return agent.pid
  }

  /** Of the vLLM that runs; undefined while none does. */
  get state(): VllmState | undefined {
    const agents = path.join(this.system.dataDir, 'agents')
    const file = readdirSync(agents, { recursive: true, encoding: 'utf8' }).find(
      (name) => path.basename(name) === 'state.json',
    )
    return file === undefined ? undefined : (JSON.parse(readFileSync(path.join(agents, file), 'utf8')) as VllmState)
  }

  /** The engine as its pool knows it. */
  async engine(): Promise<{ state: string; epoch: string } | undefined> {
    const answer = await this.system.fetch('/admin/v1/pools', { apiKey: this.system.dev.adminKey })
    if (!answer.ok) return undefined
    const { pools } = (await answer.json()) as { pools: { engines: { state: string; epoch: string }[] }[] }
    return pools[0]?.engines[0]
  }

  /** Calls that hold a seat, as vLLM itself counts them. */
  async seated(): Promise<number> {
    return total(await this.#metrics(), 'vllm:num_requests_running')
  }

  async counts(): Promise<{ decisions: number; preemptions: number; failures: number }> {
    const metrics = await this.#metrics()
    return {
      decisions: total(metrics, 'switchyard_vllm_decisions_total'),
      preemptions: total(metrics, 'switchyard_vllm_preemptions_total'),
      failures: total(metrics, 'switchyard_vllm_failures_total'),
    }
  }

  /** Contexts of programs whose tools run of which it has decided since it started. */
  async toolContexts(): Promise<number> {
    return total(await this.#metrics(), 'switchyard_vllm_tool_contexts_total')
  }

  async #metrics(): Promise<string> {
    const { port, api_key } = this.state ?? { port: 0, api_key: '' }
    const headers = { authorization: `Bearer ${api_key}` }
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { headers })
    if (!answer.ok) throw new Error(`vLLM's /metrics answered ${answer.status}`)
    return await answer.text()
  }

  /** When the engine is ready in another epoch than `epoch`, if one is given. */
  async ready(what: string, epoch?: string): Promise<string> {
    const ready = await eventually(
      what,
      async () => {
        const engine = await this.engine().catch(() => undefined)
        return engine?.state === 'ready' && engine.epoch !== epoch ? engine : undefined
      },
      START_MS,
    )
    return ready.epoch
  }
}

/**
 * What pip leaves of a package: its entry points, by which vLLM finds the plug-in's metrics. The agent puts the plug-in's source on
 * the path, which has none.
 */
function pluginMetadata(): string {
  const { project } = parse(readFileSync('gpu-agent/vllm/pyproject.toml', 'utf8')) as {
    project: { name: string; version: string; 'entry-points': Record<string, Record<string, string>> }
  }
  const groups = Object.entries(project['entry-points']).map(
    ([group, entries]) => `[${group}]\n${Object.entries(entries).map(([name, to]) => `${name} = ${to}\n`)}`,
  )
  const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-plugin-'))
  const info = path.join(folder, `${project.name.replaceAll('-', '_')}-${project.version}.dist-info`)
  mkdirSync(info)
  writeFileSync(
    path.join(info, 'METADATA'),
    `Metadata-Version: 2.1\nName: ${project.name}\nVersion: ${project.version}\n`,
  )
  writeFileSync(path.join(info, 'entry_points.txt'), groups.join('\n'))
  return folder
}

/** Of a metric over all its labels. Throws for one that is not there, which would pass for zero. */
function total(metrics: string, name: string): number {
  const lines = metrics.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
  if (lines.length === 0) throw new Error(`vLLM's /metrics has no ${name}`)
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

function answerOf(text: string, finish: string | null, usage: OpenAI.CompletionUsage): Answer {
  const { switchyard } = usage as OpenAI.CompletionUsage & { switchyard: Extension }
  return { text, finish, usage, switchyard }
}

/** One for the tests of a file: started before them and removed after them. */
export function vllmForTests(policy?: PolicyName | MemoryPolicyName): () => RunningVllm {
  let vllm: RunningVllm | null = null
  beforeAll(async () => {
    vllm = await RunningVllm.start(policy)
  }, INSTALL_AND_START_MS)
  afterAll(async () => {
    await vllm?.remove()
  })
  return () => {
    if (vllm === null) throw new Error('vLLM did not start')
    return vllm
  }
}
