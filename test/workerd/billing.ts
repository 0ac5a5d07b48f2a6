/**
 * Counts what Cloudflare bills while a program runs: requests of Durable Objects (an RPC each, WebSocket messages and
 * alarms), rows that their SQLite reads and writes (an alarm that is set is a row), and rows of D1.
 */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { vi } from 'vitest'
import { ArchiveActor } from '../../src/actors/archive.ts'
import { ClassActor } from '../../src/actors/class.ts'
import { ConversationActor } from '../../src/actors/conversation.ts'
import { IdempotencyActor } from '../../src/actors/idempotency-actor.ts'
import { PoolActor } from '../../src/actors/pool.ts'
import { ProgramActor } from '../../src/actors/program.ts'
import { TenantActor } from '../../src/actors/tenant.ts'

export interface Billed {
  /** Method → times that it was called. */
  requests: Record<string, number>
  rows_written: number
  alarms_set: number
  d1_rows_written: number
}

/** Those that others call; what the platform or an object itself calls is no RPC. */
const METHODS = {
  program: ['admit', 'leaseOpened', 'leaseLost', 'callEnded', 'settle', 'end', 'alarm'],
  pool: ['lease', 'leasedByCredit', 'release', 'cancel'],
  archive: ['keep', 'run', 'alarm'],
  tenant: [
    'programFlushed',
    'programEnded',
    'medianService',
    'meter',
    'shareBudget',
    'takeCalls',
    'roomForProgram',
    'alarm',
  ],
  conversation: ['place', 'answered'],
  idempotency: ['claim', 'heard', 'ended'],
  class: ['ended', 'sketch'],
} as const

export class Meter {
  readonly requests = new Map<string, number>()
  readonly #cursors: { rowsWritten: number }[] = []
  #alarms_set = 0
  #d1_rows_written = 0

  constructor() {
    this.#countCalls('program', ProgramActor.prototype, METHODS.program)
    this.#countCalls('pool', PoolActor.prototype, METHODS.pool)
    this.#countCalls('archive', ArchiveActor.prototype, METHODS.archive)
    this.#countCalls('tenant', TenantActor.prototype, METHODS.tenant)
    this.#countCalls('conversation', ConversationActor.prototype, METHODS.conversation)
    this.#countCalls('idempotency', IdempotencyActor.prototype, METHODS.idempotency)
    this.#countCalls('class', ClassActor.prototype, METHODS.class)
  }

  /** Storage of one object, from here until it is evicted. */
  async watch(stub: DurableObjectStub): Promise<void> {
    await runInDurableObject(stub, (instance, { storage }) => {
      const { sql } = storage
      const exec = sql.exec.bind(sql)
      const counted = (text: string, ...values: unknown[]) => {
        const cursor = exec(text, ...values)
        this.#cursors.push(cursor)
        return cursor
      }
      Object.defineProperty(sql, 'exec', { value: counted })
      const setAlarm = storage.setAlarm.bind(storage)
      Object.defineProperty(storage, 'setAlarm', {
        value: (...given: Parameters<typeof setAlarm>) => {
          this.#alarms_set += 1
          return setAlarm(...given)
        },
      })
      Object.defineProperty(instance, 'env', { value: { ...env, DB: this.#countedD1() } })
    })
  }

  get billed(): Billed {
    return {
      requests: Object.fromEntries([...this.requests].sort()),
      rows_written: this.#cursors.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0),
      alarms_set: this.#alarms_set,
      d1_rows_written: this.#d1_rows_written,
    }
  }

  #countCalls(actor: string, prototype: object, methods: readonly string[]): void {
    for (const method of methods) {
      const original = Reflect.get(prototype, method) as (...values: unknown[]) => unknown
      const { requests } = this
      vi.spyOn(prototype as Record<string, () => unknown>, method).mockImplementation(function (
        this: unknown,
        ...values: unknown[]
      ) {
        const name = `${actor}.${method}`
        requests.set(name, (requests.get(name) ?? 0) + 1)
        return original.apply(this, values)
      })
    }
  }

  #countedD1(): Pick<D1Database, 'prepare' | 'batch'> {
    return {
      prepare: (text) => env.DB.prepare(text),
      batch: async (statements) => {
        const results = await env.DB.batch(statements)
        for (const { meta } of results) this.#d1_rows_written += meta.rows_written
        return results as never
      },
    }
  }
}
