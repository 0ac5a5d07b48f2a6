/**
 * What a chaos run serves: programs of two tenants under the same names and of tenants with budgets, chains and trees, over
 * all APIs, streaming and not, with clients that leave and clients that read slowly. Plain programs, as an agent would write
 * them: a call that fails is made again.
 */
import { APIS, type Api } from './apis.ts'
import { type ClientEnd, clientCall } from './client.ts'
import type { Fleet } from './fleet.ts'
import type { HostStalls } from './host-stalls.ts'
import type { Tenant } from './ledger.ts'
import type { LimitedTenants } from './limited-tenants.ts'
import { Random } from './random.ts'

export interface Ended {
  tenant: Tenant
  program: string
  api: Api
  stream: boolean
  /** Its client reads slowly. */
  is_slow: boolean
  took_ms: number
  /** Of it, the host did not run what was due. */
  stalled_ms: number
  ended: ClientEnd
}

export interface LoadOptions {
  fleet: Fleet
  tenants: readonly Tenant[]
  limited: LimitedTenants
  seed: number
  /** Programs at work at a time, over both tenants. */
  programs_at_once: number
  stalls: HostStalls
  onEnded: (ended: Ended) => void
}

const ATTEMPTS_MAX = 200
const RETRY_MS = 300
const LEAVES_AFTER_MS_MAX = 900
const SLOW_READ_MS = 40
const SLOW_READS_MAX = 50
/** Of a prompt that is long enough for its program to be pinned. */
const LONG_PROMPT_WORDS = 2600

/** One program in so many has a budget. */
const BUDGETED_EVERY = 4
/** Of the programs: those of tenants with budgets. */
const LIMITED_SHARE = 0.3
/** Of the streams: those that are long enough to be broken often. */
const LONG_SHARE = 0.25
const LONG_OUTPUT_TOKENS = { min: 80, max: 250 }

/** Calls that the program may make. Null: it has no budget. */
export function callsMax(program: string): number | null {
  const number = Number(program.slice(program.lastIndexOf('-') + 1))
  return number % BUDGETED_EVERY === BUDGETED_EVERY - 1 ? 2 + (number % 5) : null
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export class Load {
  readonly #options: LoadOptions
  readonly #programs: { tenant: Tenant; program: string }[] = []
  #stopping = false
  #next = 0
  #calls = 0

  constructor(options: LoadOptions) {
    this.#options = options
  }

  get programs(): readonly { tenant: Tenant; program: string }[] {
    return this.#programs
  }

  get calls(): number {
    return this.#calls
  }

  /** Resolves when `stop` was asked for and every program has made its last call. */
  async run(): Promise<void> {
    const workers = Array.from({ length: this.#options.programs_at_once }, async () => {
      while (!this.#stopping) await this.#program()
    })
    await Promise.all(workers)
  }

  stop(): void {
    this.#stopping = true
  }

  async #program(): Promise<void> {
    const number = this.#next
    this.#next += 1
    const { tenants, limited, seed } = this.#options
    const random = new Random(seed * 1_000_003 + number)
    const is_limited = random.chance(LIMITED_SHARE)
    const tenant = (is_limited ? limited.pick(random) : null) ?? (tenants[number % tenants.length] as Tenant)
    // Both tenants use the same names.
    const program = `program-${Math.floor(number / tenants.length)}`
    this.#programs.push({ tenant, program })
    if (random.chance(0.3)) await this.#tree(tenant, program, random)
    else await this.#chain(tenant, program, random)
  }

  async #chain(tenant: Tenant, program: string, random: Random): Promise<void> {
    let history = `Task of ${program}. `
    if (random.chance(0.2)) history += 'context '.repeat(LONG_PROMPT_WORDS)
    for (let turn = random.between(2, 6); turn > 0; turn -= 1) {
      await this.#call(tenant, program, history, random)
      history += `Step ${turn}. `
      if (random.chance(0.3)) await sleep(random.between(10, 300))
    }
  }

  async #tree(tenant: Tenant, program: string, random: Random): Promise<void> {
    await this.#call(tenant, program, `Root of ${program}.`, random)
    const branches = Array.from({ length: random.between(2, 5) }, (_, index) =>
      this.#call(tenant, program, `Branch ${index} of ${program}.`, random, `branch-${index}`),
    )
    await Promise.all(branches)
    await this.#call(tenant, program, `Join of ${program}.`, random)
  }

  /** Until it is whole, or given up by a client that leaves. */
  async #call(tenant: Tenant, program: string, prompt: string, random: Random, thread?: string): Promise<void> {
    const { limited } = this.#options
    const api = random.pick(APIS)
    const stream = random.chance(0.6)
    const is_long = stream && random.chance(LONG_SHARE)
    const output_tokens = is_long
      ? random.between(LONG_OUTPUT_TOKENS.min, LONG_OUTPUT_TOKENS.max)
      : random.between(4, 60)
    const leaves_after_ms = random.chance(0.08) ? random.between(0, LEAVES_AFTER_MS_MAX) : null
    const is_slow = random.chance(0.05)
    for (let attempt = 0; attempt < ATTEMPTS_MAX && !limited.isUsedUp(tenant.tenant); attempt += 1) {
      const { stalls } = this.#options
      const started_ms = performance.now()
      const stalled_before_ms = stalls.stalled_ms
      const ended = await this.#attempt(
        { tenant, program, api, prompt, stream, output_tokens, thread },
        leaves_after_ms,
        is_slow,
      )
      this.#calls += 1
      const took_ms = Math.round(performance.now() - started_ms)
      const stalled_ms = Math.round(stalls.stalled_ms - stalled_before_ms)
      this.#options.onEnded({ tenant, program, api, stream, is_slow, took_ms, stalled_ms, ended })
      if (ended.end === 'completed' || ended.end === 'left' || ended.end === 'half_truth') return
      if (ended.end === 'refused' && ended.status === 402) return
      if (this.#stopping) return
      await sleep(RETRY_MS)
    }
  }

  async #attempt(
    what: {
      tenant: Tenant
      program: string
      api: Api
      prompt: string
      stream: boolean
      output_tokens: number
      thread: string | undefined
    },
    leaves_after_ms: number | null,
    is_slow: boolean,
  ): Promise<ClientEnd> {
    const { fleet } = this.#options
    const { tenant, thread, ...call } = what
    const leaving = new AbortController()
    const timer = leaves_after_ms === null ? undefined : setTimeout(() => leaving.abort(), leaves_after_ms)
    let reads = 0
    const slowly = async (): Promise<void> => {
      reads += 1
      if (reads <= SLOW_READS_MAX) await sleep(SLOW_READ_MS)
    }
    try {
      return await clientCall({
        url: fleet.url,
        api_key: tenant.apiKey,
        model: fleet.options.model,
        ...call,
        may_be_cut: true,
        signal: leaving.signal,
        headers: { ...(thread === undefined ? {} : { 'x-thread-id': thread }), ...budgetHeader(call.program) },
        ...(is_slow ? { onBytes: slowly } : {}),
      })
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Far more tokens than it can use: their reservations must come back. */
function budgetHeader(program: string): Record<string, string> {
  const calls = callsMax(program)
  return calls === null ? {} : { 'x-program-budget': `calls=${calls}, tokens=1000000` }
}
