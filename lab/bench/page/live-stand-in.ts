/** Serves the page as the Worker does, signed in as the operator, with live events of programs that change, end and begin. */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pageAsset, pageDocument } from '../../../src/api/page/document.ts'
import { seededRandom } from '../../../src/core/seeded-random.ts'
import type { LiveEvent, LivePool, LiveProgram } from '../../../src/protocol/live.ts'

/** As often as the Worker tells at most (src/api/page/live-source.ts). */
const TELL_EVERY_MS = 1_000
/** Of the changes, so many are a program that ends and another one that begins. */
const ENDS = 0.1
const ENGINES = 8

export interface StandInOptions {
  programs: number
  changes_per_s: number
}

export class LiveStandIn {
  readonly #options: StandInOptions
  readonly #server: Server
  readonly #streams = new Set<ServerResponse>()
  readonly #random = seededRandom(1)
  readonly #programs: LiveProgram[] = []
  #made = 0
  #timer: NodeJS.Timeout | null = null

  private constructor(options: StandInOptions) {
    this.#options = options
    for (let n = 0; n < options.programs; n++) this.#programs.push(this.#begun())
    this.#server = createServer((request, response) => void this.#answer(request.url ?? '/', response))
  }

  static async start(options: StandInOptions): Promise<LiveStandIn> {
    const source = new LiveStandIn(options)
    await new Promise<void>((resolve) => source.#server.listen(0, '127.0.0.1', resolve))
    source.#timer = setInterval(() => source.#tell(), TELL_EVERY_MS)
    return source
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    for (const stream of this.#streams) stream.end()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #answer(path: string, response: ServerResponse): Promise<void> {
    if (path === '/page/live') return this.#open(response)
    if (path === '/page/session') {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ role: 'operator', tenant: null }))
      return
    }
    const name = path.startsWith('/page/assets/') ? path.slice('/page/assets/'.length) : null
    const found = name === null ? pageDocument() : pageAsset(name)
    response.writeHead(found?.status ?? 404, Object.fromEntries(found?.headers ?? []))
    response.end(found === null ? '' : await found.text())
  }

  #open(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    this.#streams.add(response)
    response.on('close', () => this.#streams.delete(response))
    this.#send(response, { reset: true, changed: this.#programs, gone: [] })
  }

  #tell(): void {
    const changed = new Map<string, LiveProgram>()
    const gone: string[] = []
    for (let n = 0; n < this.#options.changes_per_s; n++) {
      const at = Math.floor(this.#random() * this.#programs.length)
      const program = this.#programs[at]
      if (program === undefined) continue
      const next = this.#random() < ENDS ? this.#begun() : this.#moved(program)
      if (next.id !== program.id) gone.push(program.id)
      this.#programs[at] = next
      changed.delete(program.id)
      changed.set(next.id, next)
    }
    const change = { reset: false, changed: [...changed.values()], gone }
    for (const stream of this.#streams) this.#send(stream, change)
  }

  #send(
    stream: ServerResponse,
    { reset, changed, gone }: Pick<LiveEvent['tenants'][number], 'reset' | 'changed' | 'gone'>,
  ) {
    const event: LiveEvent = {
      at_ms: Date.now(),
      tenants: [
        {
          ...{ id: 'local', name: 'Local', weight: 1, running: this.#programs.length, reachable: true },
          ...{ output_tokens_per_s: 1_000 * this.#random(), service_share: 1, reset, changed, gone },
        },
      ],
      ...{ pools: this.#pools(), tenants_left_out: 0, pools_left_out: 0 },
    }
    stream.write(`data: ${JSON.stringify(event)}\n\n`)
  }

  #begun(): LiveProgram {
    this.#made += 1
    const now_ms = Date.now()
    return {
      ...{
        id: `program-${this.#made}`,
        run: `run-${this.#made}`,
        app: 'research',
        class: 'app:research',
        source: 'header',
      },
      ...{ started_at_ms: now_ms, last_arrival_ms: now_ms, calls: 1, open_calls: 1, service_s: 0, output_tokens: 0 },
      detail: null,
    }
  }

  #moved(program: LiveProgram): LiveProgram {
    const open_calls = this.#random() < 0.5 ? 1 : 0
    const engine = `host-${Math.floor(this.#random() * ENGINES)}-e0`
    const tool = { name: 'search', since: new Date().toISOString(), expected_s: 5 * this.#random() }
    return {
      ...program,
      ...{ open_calls, calls: program.calls + open_calls, last_arrival_ms: Date.now() },
      ...{ service_s: program.service_s + this.#random(), output_tokens: program.output_tokens + 100 },
      detail: {
        ...{
          service_wall_s: program.service_s + 1,
          wait_s: program.service_s * this.#random(),
          engine,
          region: 'us-east',
        },
        ...{ model: 'model', prompt_tokens: 1_000 * program.calls, cached_tokens: 700 * program.calls },
        tools: open_calls === 0 ? [tool] : [],
        ...{ rank: Math.floor(22 * this.#random()), expected_remaining_tokens: null, weight: 1 },
        position: open_calls === 0 ? null : { waits: true, waited_s: this.#random(), before: 3, order: 'Q2 of 22' },
      },
    }
  }

  #pools(): LivePool[] {
    const engines = Array.from({ length: ENGINES }, (_, n) => ({
      ...{ engine: `host-${n}-e0`, agent: `host-${n}`, kind: 'emulated', state: 'ready' as const, seats: 64 },
      ...{ waiting: Math.floor(9 * this.#random()), running: Math.floor(64 * this.#random()), queued_tokens: 100 },
      ...{ kv_used_tokens: Math.floor(500_000 * this.#random()), kv_capacity_tokens: 500_000, leases_since_report: 0 },
    }))
    return [{ region: 'us-east', model: 'model', reachable: true, engines }]
  }
}
