/**
 * Starts the whole system the way a user does, `up --detach`, in a data directory of its own on a free port, and takes it
 * down again. Everything runs in real processes: supervisor, control plane (workerd), one agent per region.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import OpenAI from 'openai'
import { type CommandOutcome, runCommandOrThrow } from '../../../lab/testbed/run-command.ts'
import { freePort } from '../../../ops/system/free-port.ts'

const UP_TIMEOUT_MS = 170_000
/** vLLM alone takes a minute on two idle cores, and its packages are installed first where they are missing. */
const VLLM_UP_TIMEOUT_MS = 20 * 60_000

export interface DevFile {
  url: string
  apiKey: string
  adminKey: string
  pid: number
  controlPlanePid: number
  policy: string
  model: string
  engine: string
  agents: { id: string; region: string; url: string; pid: number }[]
}

export interface SystemOptions {
  engine: 'embedded' | 'emulated' | 'scripted' | 'vllm' | 'openai'
  flags?: string[]
  dataDir?: string
  port?: number
}

export class System {
  readonly dataDir: string
  readonly port: number
  readonly #engine: string
  readonly #flags: string[]

  constructor(dataDir: string, port: number, engine: string, flags: string[]) {
    this.dataDir = dataDir
    this.port = port
    this.#engine = engine
    this.#flags = flags
  }

  static async start(options: SystemOptions): Promise<System> {
    const dataDir = options.dataDir ?? mkdtempSync(path.join(tmpdir(), 'switchyard-system-'))
    const system = new System(dataDir, options.port ?? (await freePort()), options.engine, options.flags ?? [])
    await system.up()
    return system
  }

  /** Runs `up --detach` and waits until it says that it is ready. */
  async up(): Promise<CommandOutcome> {
    const flags = ['--port', String(this.port), '--data-dir', this.dataDir, '--engine', this.#engine, '--detach']
    const timeout_ms = this.#engine === 'vllm' ? VLLM_UP_TIMEOUT_MS : UP_TIMEOUT_MS
    return runCommandOrThrow('ops/up.ts', [...flags, ...this.#flags], { timeout_ms })
  }

  async down(): Promise<void> {
    await runCommandOrThrow('ops/down.ts', ['--data-dir', this.dataDir], { timeout_ms: UP_TIMEOUT_MS })
  }

  /** Takes the system down and removes its state. */
  async remove(): Promise<void> {
    await this.down()
    rmSync(this.dataDir, { recursive: true, force: true })
  }

  get dev(): DevFile {
    return JSON.parse(readFileSync(path.join(this.dataDir, 'dev.json'), 'utf8')) as DevFile
  }

  /** As the questions of lab/chaos/ledger.ts want them. */
  get agents(): { id: string; outbox: string }[] {
    return this.dev.agents.map(({ id }) => ({ id, outbox: path.join(this.dataDir, 'agents', id, 'outbox.sqlite') }))
  }

  /** What the agents have told so far. */
  agentLog(): Record<string, unknown>[] {
    const lines = this.dev.agents.flatMap(({ id }) =>
      readFileSync(path.join(this.dataDir, 'logs', `${id}.log`), 'utf8').split('\n'),
    )
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  client(options: { apiKey?: string; headers?: Record<string, string> } = {}): OpenAI {
    const { url, apiKey } = this.dev
    return new OpenAI({
      baseURL: `${url}/v1`,
      apiKey: options.apiKey ?? apiKey,
      maxRetries: 0,
      timeout: 120_000,
      ...(options.headers === undefined ? {} : { defaultHeaders: options.headers }),
    })
  }

  fetch(route: string, init: RequestInit & { apiKey?: string | null } = {}): Promise<Response> {
    const { url, apiKey } = this.dev
    const headers = new Headers(init.headers)
    const key = init.apiKey === undefined ? apiKey : init.apiKey
    if (key !== null && !headers.has('authorization')) headers.set('authorization', `Bearer ${key}`)
    if (init.body !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json')
    return fetch(`${url}${route}`, { ...init, headers })
  }

  /** A second tenant and a key for it, through the admin API. */
  async createTenant(name: string): Promise<{ tenant: string; apiKey: string }> {
    const admin = this.dev.adminKey
    const created = await this.fetch('/admin/v1/tenants', {
      method: 'POST',
      apiKey: admin,
      body: JSON.stringify({ name }),
    })
    const tenant = ((await created.json()) as { id: string }).id
    const answer = await this.fetch(`/admin/v1/tenants/${tenant}/keys`, {
      method: 'POST',
      apiKey: admin,
      body: JSON.stringify({ name: 'test' }),
    })
    return { tenant, apiKey: ((await answer.json()) as { key: string }).key }
  }
}

/** Polls until `probe` gives a value; rejects with what was awaited when it takes too long. */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  timeout_ms = 180_000,
): Promise<T> {
  const deadline = performance.now() + timeout_ms
  for (;;) {
    const value = await probe()
    if (value !== undefined) return value
    if (performance.now() > deadline) throw new Error(`not within ${timeout_ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
