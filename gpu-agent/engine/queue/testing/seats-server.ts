/**
 * A simulated server with a fixed number of seats and a queue of its own, first come, first served, on a virtual clock: what a
 * controller in front of it sees, and nothing of how it is built. A step lasts `base_us` and so much for every call in it.
 */
export interface SeatsServerConfig {
  seats: number
  base_us: number
  call_us: number
}

interface Running {
  prompt_us: number
  left_tokens: number
  sent_us: number
  answered: boolean
}

export class SeatsServer {
  seats: number
  now_us = 0
  ended = 0
  tokens = 0
  /** Of calls that had their first token since it was last emptied. */
  ttft_us: number[] = []
  readonly #config: SeatsServerConfig
  readonly #running: Running[] = []
  readonly #waiting: Running[] = []

  constructor(config: SeatsServerConfig) {
    this.#config = config
    this.seats = config.seats
  }

  get sent(): number {
    return this.#running.length + this.#waiting.length
  }

  get waiting(): number {
    return this.#waiting.length
  }

  get unanswered(): number {
    return this.#waiting.length + this.#running.filter(({ answered }) => !answered).length
  }

  send(prompt_us: number, output_tokens: number): void {
    this.#waiting.push({ prompt_us, left_tokens: output_tokens, sent_us: this.now_us, answered: false })
  }

  step(): void {
    while (this.#running.length < this.seats && this.#waiting.length > 0) {
      this.#running.push(this.#waiting.shift() as Running)
    }
    const { base_us, call_us } = this.#config
    const starting = this.#running.find(({ answered }) => !answered)
    this.now_us += base_us + call_us * this.#running.length + (starting?.prompt_us ?? 0)
    for (const call of [...this.#running]) {
      if (!call.answered && call !== starting) continue
      if (!call.answered) this.ttft_us.push(this.now_us - call.sent_us)
      call.answered = true
      call.left_tokens -= 1
      this.tokens += 1
      if (call.left_tokens > 0) continue
      this.ended += 1
      this.#running.splice(this.#running.indexOf(call), 1)
    }
  }
}

/** Uniform in [0, 1): Lehmer's generator. Equal seeds give equal sequences. */
export function seeded(seed: number): () => number {
  let state = (seed * 48_271) % 2_147_483_647
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}
