/** llama.cpp's own server as a process, with as many slots as the benchmark's server has seats. */
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../../ops/system/free-port.ts'
import { ManagedChild } from '../../testbed/managed-child.ts'

const START_MS_MAX = 300_000
const LOOK_MS = 500
/** The longest context of a call of `chats`, with room. */
const SLOT_TOKENS = 4096

export class LlamaServer {
  readonly url: string
  readonly #child: ManagedChild

  private constructor(url: string, child: ManagedChild) {
    this.url = url
    this.#child = child
  }

  /** `binary`: llama-server. `weights`: a GGUF. */
  static async start(binary: string, weights: string, model: string, seats: number): Promise<LlamaServer> {
    const port = await freePort()
    const args = [
      ...['-m', weights, '--alias', model, '--host', '127.0.0.1', '--port', String(port), '--threads', '1'],
      ...['--parallel', String(seats), '-c', String(seats * SLOT_TOKENS), '--metrics', '--slots'],
    ]
    const child = new ManagedChild({ name: 'llama-server', command: binary, args })
    await child.start()
    const server = new LlamaServer(`http://127.0.0.1:${port}`, child)
    const give_up_ms = performance.now() + START_MS_MAX
    while (!(await server.#answers())) {
      if (child.pid === null || performance.now() > give_up_ms) {
        await server.close()
        throw new Error(`${binary} does not answer: ${child.output}`)
      }
      await sleep(LOOK_MS)
    }
    return server
  }

  async close(): Promise<void> {
    await this.#child.end()
  }

  async #answers(): Promise<boolean> {
    const health = await fetch(`${this.url}/health`).catch(() => null)
    await health?.body?.cancel()
    return health?.ok === true
  }
}
