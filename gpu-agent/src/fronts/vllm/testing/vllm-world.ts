/**
 * An agent's outbox and VllmFront over a scripted vLLM, both of which can die. A crash of the agent keeps what its disk had
 * in that instant; vLLM sees the connections close. The engine's truth about every lease is kept beside, to compare.
 */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { onTestFinished } from 'vitest'
import type { CallRecord, TicketClaims } from '../../../../../src/protocol/index.ts'
import { Call } from '../../../data-plane/call.ts'
import { DISK_WAIT_MS } from '../../../data-plane/disk-wait.ts'
import { ERRORS } from '../../../data-plane/stream-errors.ts'
import type { AgentEvent } from '../../../events.ts'
import { lostCallsOf } from '../../../outbox/lost-calls.ts'
import { type Outbox, openOutbox } from '../../../outbox/outbox.ts'
import { OUTBOX_FILE } from '../../../outbox/outbox-database.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import { ServedEngine } from '../../../served-engine.ts'
import { temporaryFolder } from '../../../testing/harness.ts'
import type { FrontCount } from '../../engine-front.ts'
import { dispatched, user } from '../../testing/dispatched.ts'
import { VllmFront } from '../vllm-front.ts'
import type { VllmTimes } from '../vllm-times.ts'
import { ScriptedVllm } from './scripted-vllm.ts'

const ENGINE = 'agent-e0'
/** Short, for runs in which nothing comes. */
const TIMES = { record_wait_ms: 60, lost_wait_ms: 150, lost_quiet_ms: 30 }

interface Truth {
  epoch: string
  choices: number
  sums: LedgerSums
  recorded: boolean
}

interface Running {
  outbox: Outbox
  front: VllmFront
  engine: ServedEngine
}

export class VllmWorld {
  readonly vllm: ScriptedVllm
  /** Every lease that was opened. */
  readonly claims = new Map<string, TicketClaims>()
  readonly truth = new Map<string, Truth>()
  readonly counted: FrontCount[] = []
  readonly events: AgentEvent[] = []
  readonly #times: Partial<VllmTimes>
  #folder = temporaryFolder()
  #running: Running | null = null
  #epochs = 1

  static async start(times: Partial<VllmTimes> = {}): Promise<VllmWorld> {
    const world = new VllmWorld(await new ScriptedVllm().listen(), times)
    await world.boot()
    onTestFinished(() => world.end())
    return world
  }

  private constructor(vllm: ScriptedVllm, times: Partial<VllmTimes>) {
    this.vllm = vllm
    this.#times = { ...TIMES, ...times }
  }

  get #agent(): Running {
    if (this.#running === null) throw new Error('no agent runs')
    return this.#running
  }

  async boot(): Promise<void> {
    const fatal = (message: string): never => {
      throw new Error(message)
    }
    const report = (event: AgentEvent): void => void this.events.push(event)
    const opening = openOutbox({ data_dir: this.#folder, wall_ms: Date.now, report, fatal, stays_open: () => true })
    if (opening.status !== 'open') throw new Error(opening.message)
    const { outbox } = opening
    const recorded = (): void => undefined
    const front = await VllmFront.start(
      {
        ...{ id: ENGINE, model_id: 'model', ordering: 'modelled', server: this.vllm, times: this.#times },
        lost: lostCallsOf(ENGINE, opening.left_open, { outbox, wall_ms: Date.now, report, recorded }),
        report: () => undefined,
        random: () => 0,
      },
      {
        ledger: (rows) => outbox.ledger(rows),
        status: () => undefined,
        epoch: () => undefined,
        counted: (what) => this.counted.push(what),
      },
    )
    this.#running = { outbox, front, engine: new ServedEngine(ENGINE, front) }
  }

  async open(choices: number): Promise<string> {
    const { outbox, front, engine } = this.#agent
    const body = { messages: user('Hi'), n: choices }
    const { claims } = dispatched(front.describe().epoch, body)
    const opening = outbox.openLease(claims)
    if (opening.status !== 'opened') throw new Error(opening.status)
    await opening.committed
    const sums = { wall_us: 0, modelled_us: 0, computed_tokens: 0, sampled_tokens: 0 }
    this.claims.set(claims.lease, claims)
    this.truth.set(claims.lease, { epoch: claims.epoch, choices, sums, recorded: false })
    const nothing = (): void => undefined
    const call = new Call(claims, engine, {
      ...{ outbox, metrics: { settled: nothing, tokenGap: nothing } as never, spans: null },
      ...{ recorded: nothing, wall_ms: Date.now, clock: () => 0, disk_wait_ms: DISK_WAIT_MS },
      forecasts: null,
      report: (event) => this.events.push(event),
    })
    call.start('chat', body, { accepted: nothing, chunk: () => true, finish: nothing, refuse: nothing })
    return claims.lease
  }

  cancel(lease: string): void {
    this.#agent.front.cancel(lease, ERRORS.client_gone)
  }

  /** vLLM steps: the lease costs more. */
  charge(lease: string, us: number): void {
    const truth = this.#open(lease)
    if (truth === null) return
    const { wall_us, modelled_us, computed_tokens, sampled_tokens } = truth.sums
    truth.sums = {
      wall_us: wall_us + us,
      modelled_us: modelled_us + Math.floor(us / 2),
      computed_tokens: computed_tokens + 2,
      sampled_tokens: sampled_tokens + 1,
    }
    this.vllm.charges([lease, { ...truth.sums, output_tokens: truth.sums.sampled_tokens }])
  }

  /** vLLM ends the lease's calls: one record each. */
  record(lease: string): void {
    const truth = this.#open(lease)
    if (truth === null) return
    truth.recorded = true
    const { wall_us, modelled_us, computed_tokens, sampled_tokens } = truth.sums
    for (let choice = 0; choice < truth.choices; choice += 1) {
      const share = (total: number): number => {
        const part = Math.floor(total / truth.choices)
        return choice === 0 ? total - part * (truth.choices - 1) : part
      }
      this.vllm.record(lease, {
        service_wall_us: share(wall_us),
        service_modelled_us: share(modelled_us),
        computed_tokens: share(computed_tokens),
        output_tokens: share(sampled_tokens),
      })
    }
  }

  /** The agent is killed, and another one starts on what its disk had. */
  async crash(): Promise<void> {
    const { outbox, front } = this.#agent
    const folder = temporaryFolder()
    for (const suffix of ['', '-wal', '-shm']) {
      cpSync(join(this.#folder, OUTBOX_FILE + suffix), join(folder, OUTBOX_FILE + suffix), { force: true })
    }
    this.#running = null
    // Nothing of the one that was killed is heard any more, and it waits for nothing.
    await this.vllm.closeChannel()
    this.vllm.down('its agent was killed')
    await front.stop()
    outbox.close()
    this.#folder = folder
    await this.vllm.openChannel()
    await this.boot()
  }

  /** vLLM dies with all that it had not told, and starts again. */
  async restartEngine(): Promise<void> {
    this.vllm.down()
    this.#epochs += 1
    this.vllm.restart(`engine-${this.#epochs}`)
    this.vllm.up()
    const { front } = this.#agent
    while (front.status().state !== 'ready') await new Promise((resolve) => setTimeout(resolve, 2))
  }

  records(): CallRecord[] {
    return this.#agent.outbox.unacknowledged(0, 10_000).map(({ record }) => record)
  }

  /** What the rows of a lease on disk add up to. */
  ledger(lease: string): { wall_us: number; modelled_us: number } {
    const db = new Database(join(this.#folder, OUTBOX_FILE), { readonly: true })
    try {
      const sums = 'select coalesce(sum(wall_us), 0) wall_us, coalesce(sum(modelled_us), 0) modelled_us from ledger'
      return db.prepare(`${sums} where lease = ?`).get(lease) as { wall_us: number; modelled_us: number }
    } finally {
      db.close()
    }
  }

  async end(): Promise<void> {
    const running = this.#running
    this.#running = null
    await running?.front.stop()
    running?.outbox.close()
  }

  /** Null: vLLM has ended it, or died. */
  #open(lease: string): Truth | null {
    const truth = this.truth.get(lease)
    return truth === undefined || truth.recorded || truth.epoch !== this.vllm.epoch ? null : truth
  }
}
