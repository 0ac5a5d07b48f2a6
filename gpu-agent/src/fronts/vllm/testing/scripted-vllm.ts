/**
 * A vLLM of a test: an HTTP server that speaks vLLM's dialect of OpenAI and a Unix socket that speaks the plug-in's side
 * channel, both real, and both saying what the test tells them.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Server as NetServer, Socket } from 'node:net'
import { createServer as createNetServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { profileOf } from '../../attached/server-profile.ts'
import type { VllmAddress, VllmServer, VllmServerListener } from '../process/vllm-server.ts'

type Json = Record<string, unknown>

export interface EngineSums {
  wall_us: number
  modelled_us: number
  computed_tokens: number
  output_tokens: number
}

/** One request as the test answers it. */
export class ScriptedRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Json
  readonly response: ServerResponse
  closed = false

  constructor(request: IncomingMessage, body: Json, response: ServerResponse) {
    this.path = request.url ?? ''
    this.headers = request.headers
    this.body = body
    this.response = response
    response.on('close', () => {
      this.closed = true
    })
  }

  get lease(): string {
    return (this.body.vllm_xargs as { switchyard_lease: string }).switchyard_lease
  }

  /** vLLM took the call. */
  accept(): this {
    this.response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' }).flushHeaders()
    return this
  }

  send(data: unknown): this {
    this.response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)
    return this
  }

  role(index = 0): this {
    return this.send(chunkOf({ index, delta: { role: 'assistant', content: '' }, finish_reason: null }))
  }

  text(content: string, finish_reason: string | null = null, index = 0): this {
    return this.send(chunkOf({ index, delta: { content }, finish_reason, stop_reason: null }))
  }

  usage(prompt_tokens: number, completion_tokens: number): this {
    const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    return this.send({ ...chunkOf(), choices: [], usage })
  }

  done(): void {
    this.send('[DONE]')
    this.response.end()
  }

  refuse(status: number, error: Json | string): void {
    const text = typeof error === 'string' ? error : JSON.stringify({ error })
    this.response.writeHead(status, { 'content-type': 'application/json' }).end(text)
  }

  /** The connection breaks. */
  cut(): void {
    this.response.destroy()
  }
}

function chunkOf(...choices: Json[]): Json {
  return { id: 'chatcmpl-vllm', object: 'chat.completion.chunk', created: 1, model: 'served', choices }
}

export class ScriptedVllm implements VllmServer {
  readonly requests: ScriptedRequest[] = []
  readonly heard: Json[] = []
  readonly suspected: string[] = []
  readonly path: string
  hello: Json = {}
  epoch = 'engine-1'
  /** Answer of /metrics. */
  metrics = ''
  stopped = false
  onRequest: (request: ScriptedRequest) => void = () => undefined
  /** What the agent says over the side channel. */
  onMessage: (message: Json) => void = () => undefined
  #listener: VllmServerListener | null = null
  #http: Server
  #channel: NetServer | null = null
  #agent: Socket | null = null
  #next = 1
  readonly #records: Json[] = []
  #url = ''

  /** `whenOver`: takes what ends it. */
  constructor(whenOver: (close: () => Promise<void>) => void = onTestFinished) {
    const folder = mkdtempSync(join(tmpdir(), 'vllm-'))
    this.path = join(folder, 'channel.sock')
    this.#http = createServer((request, response) => void this.#serve(request, response))
    whenOver(async () => {
      await this.close()
      rmSync(folder, { recursive: true, force: true })
    })
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#http.listen(0, '127.0.0.1', resolve))
    this.#url = `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`
    return this.openChannel()
  }

  async openChannel(): Promise<this> {
    const channel = createNetServer((socket) => this.#connected(socket))
    this.#channel = channel
    await new Promise<void>((resolve) => channel.listen(this.path, resolve))
    return this
  }

  address(changes: Partial<VllmAddress> = {}): VllmAddress {
    return {
      url: this.#url,
      api_key: 'key',
      socket: this.path,
      served_model: 'served',
      context_tokens_max: 4096,
      kv_capacity_tokens: 10_000,
      seats: 4,
      order: 'plugin',
      queued: null,
      profile: profileOf('vllm'),
      epoch: this.epoch,
      ...changes,
    }
  }

  /** As the server's supervisor. */
  async start(listener: VllmServerListener): Promise<void> {
    this.#listener = listener
    this.up()
  }

  addressed: Partial<VllmAddress> = {}

  up(): void {
    this.#listener?.up(this.address(this.addressed))
  }

  down(reason = 'it was killed'): void {
    this.#listener?.down(reason)
  }

  suspect(reason: string): void {
    this.suspected.push(reason)
  }

  async stop(): Promise<void> {
    this.stopped = true
  }

  get connected(): boolean {
    return this.#agent !== null
  }

  say(message: unknown): void {
    this.#agent?.write(typeof message === 'string' ? message : `${JSON.stringify(message)}\n`)
  }

  /** Kept until acknowledged, and sent to the connected agent. Returns its number. */
  record(lease: string | null, changes: Json = {}): number {
    const number = this.#next++
    const record = {
      ...{ type: 'record', number, v: 1, request_id: `chatcmpl-${lease}`, lease },
      ...{ tenant: 't', program: 'p', program_class: null, outcome: 'stop', prompt_tokens: 7, cached_tokens: 2 },
      ...{ output_tokens: 3, computed_tokens: 7, service_wall_us: 3000, service_modelled_us: 2127, wait_us: 500 },
      ...{ preemptions: 0, first_token_us: 1500, duration_us: 3500, ...changes },
    }
    this.#records.push(record)
    this.say(record)
    return number
  }

  charges(...leases: [string, EngineSums][]): void {
    const rows = leases.map(([lease, s]) => [lease, s.wall_us, s.modelled_us, s.computed_tokens, s.output_tokens])
    this.say({ type: 'charges', leases: rows })
  }

  /** Numbers of the records that the agent has not acknowledged. */
  get kept(): number[] {
    return this.#records.map(({ number }) => number as number)
  }

  /** The plug-in's process is another. */
  restart(epoch: string): void {
    this.epoch = epoch
    this.#next = 1
    this.#records.length = 0
    this.dropAgent()
  }

  dropAgent(): void {
    this.#agent?.destroy()
    this.#agent = null
  }

  async close(): Promise<void> {
    this.dropAgent()
    this.#channel?.close()
    this.#http.closeAllConnections()
    this.#http.close()
  }

  async closeChannel(): Promise<void> {
    this.dropAgent()
    await new Promise((resolve) => this.#channel?.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/metrics') {
      response.end(this.metrics)
      return
    }
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const fake = new ScriptedRequest(request, JSON.parse(Buffer.concat(parts).toString()), response)
    this.requests.push(fake)
    this.onRequest(fake)
  }

  #connected(socket: Socket): void {
    this.#agent?.destroy()
    this.#agent = socket
    socket.on('error', () => undefined)
    let text = ''
    socket.on('data', (bytes) => {
      text += bytes.toString()
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) this.#hear(JSON.parse(line))
    })
    const hello = { type: 'hello', v: 1, epoch: this.epoch, pid: 1, plugin: '0.1.0', vllm: '0.32.0', seats: 4 }
    this.say({ ...hello, ...this.hello })
    for (const record of this.#records) this.say(record)
  }

  #hear(message: Json): void {
    this.heard.push(message)
    this.onMessage(message)
    if (message.type !== 'ack') return
    while (this.#records.length > 0 && Number(this.#records[0]?.number) <= Number(message.number)) this.#records.shift()
  }
}
