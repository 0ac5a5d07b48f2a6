/** A scripted vLLM that serves by itself: as many tokens as are asked for, a pause between two, and a record at each end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ScriptedRequest, ScriptedVllm } from './scripted-vllm.ts'

const PROMPT_TOKENS = 7
const STEP_MS = 2
const STEP_US = STEP_MS * 1000

/** Ends when its front stops it, so that it can serve several tests. */
export class WritingVllm extends ScriptedVllm {
  readonly #close: () => Promise<void>

  constructor() {
    let close = async (): Promise<void> => undefined
    super((given) => {
      close = given
    })
    this.#close = close
    this.hello = { positions: true }
    this.onRequest = (request) => void write(this, request)
    this.onMessage = (message) => tellPositions(this, message)
  }

  override async stop(): Promise<void> {
    await super.stop()
    await this.#close()
  }
}

async function write(vllm: ScriptedVllm, request: ScriptedRequest): Promise<void> {
  const { body, lease, path } = request
  const chat = path.endsWith('/chat/completions')
  const due = Number(body.max_tokens ?? body.max_completion_tokens)
  request.accept()
  if (chat) request.role()
  let written = 0
  while (written < due && !request.closed) {
    await sleep(STEP_MS)
    written += 1
    const finish = written === due ? 'length' : null
    if (chat) request.text('a', finish)
    else request.send({ choices: [{ index: 0, text: 'a', finish_reason: finish }] })
  }
  if (!request.closed) request.usage(PROMPT_TOKENS, written).done()
  const service_wall_us = written * STEP_US
  vllm.record(lease, {
    ...{ outcome: request.closed && written < due ? 'cancelled' : 'length', prompt_tokens: PROMPT_TOKENS },
    ...{ output_tokens: written, computed_tokens: PROMPT_TOKENS + written - 1, service_wall_us },
    ...{ first_token_us: STEP_US, wait_us: 0, duration_us: service_wall_us },
  })
}

/** Nothing waits here: every call that is open runs. */
function tellPositions(vllm: ScriptedVllm, { type, number, leases }: Record<string, unknown>): void {
  if (type !== 'positions') return
  const open = vllm.requests.filter((request) => !request.closed).map(({ lease }) => lease)
  const told = open.filter((lease) => (leases as string[]).includes(lease))
  vllm.say({ type: 'positions', number, positions: told.map((lease) => [lease, false, 0, 0, 'in order of arrival']) })
}
