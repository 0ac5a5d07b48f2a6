/** The Python order as a long-running process (tests/order/replay.py): a trace in, its verdict out. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { z } from 'zod'
import { VLLM_ROOT } from '../../../ops/vllm/environment.ts'

const Answer = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true) }),
  z.object({ ok: z.literal(false), mismatch: z.string() }),
])
export type Answer = z.infer<typeof Answer>

/** A trace of some hundred lines is replayed within milliseconds. */
const ANSWER_TIMEOUT_MS = 60_000

export class PythonOrder {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #answers: AsyncIterator<string>
  readonly #lines: Interface
  #stderr = ''

  constructor(python: string) {
    const folders = [path.join(VLLM_ROOT, 'src'), path.join(VLLM_ROOT, 'tests')]
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: folders.join(path.delimiter) }
    this.#child = spawn(python, ['-m', 'order.replay'], { env, stdio: 'pipe' })
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#stderr = `${this.#stderr}${chunk}`.slice(-4000)
    })
    // A process that ended is told of by the answer that does not come.
    this.#child.stdin.on('error', () => {})
    this.#child.on('error', (error) => {
      this.#stderr = error.message
    })
    this.#lines = createInterface({ input: this.#child.stdout })
    this.#answers = this.#lines[Symbol.asyncIterator]()
  }

  async replay(lines: readonly string[]): Promise<Answer> {
    this.#child.stdin.write(`${lines.join('\n')}\n\n`)
    const timer = setTimeout(() => this.#child.kill(), ANSWER_TIMEOUT_MS)
    const answer = await this.#answers.next()
    clearTimeout(timer)
    if (answer.done) throw new Error(`The Python order ended: ${this.#stderr.trim() || 'it did not answer in time'}`)
    return Answer.parse(JSON.parse(answer.value))
  }

  close(): void {
    this.#lines.close()
    this.#child.stdin.end()
  }
}
