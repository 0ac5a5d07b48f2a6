/**
 * The whole Worker, with its dependencies in a tester's hands: D1 that does not answer, actors that are slow, unreachable,
 * evicted, or woken twice. Tests and `npm run chaos` start the control plane with this entry; the product's entry is
 * src/worker.ts and knows nothing of it. All of a local workerd's objects share this isolate, so the faults are one object.
 */
// First: it extends Zod, and only schemas that are made afterwards know of it.
import '@hono/zod-openapi'
import { z } from 'zod'
import { ArchiveActor as RealArchiveActor } from '../../src/actors/archive.ts'
import { ClassActor as RealClassActor, ROW_INTERVAL_MS } from '../../src/actors/class.ts'
import { PoolActor as RealPoolActor } from '../../src/actors/pool.ts'
import { ProgramActor as RealProgramActor } from '../../src/actors/program.ts'
import { TenantActor as RealTenantActor } from '../../src/actors/tenant.ts'
import { app } from '../../src/api/app.ts'
import type { Env } from '../../src/env.ts'
import { RELAY_TIMES, type RelayTimes } from '../../src/relay/deps.ts'

export { ApplicationActor } from '../../src/actors/application/application-actor.ts'
export { BatchActor } from '../../src/actors/batch/batch-actor.ts'
export { ConversationActor } from '../../src/actors/conversation.ts'
export { HostsActor } from '../../src/actors/hosts/hosts-actor.ts'
export { IdempotencyActor } from '../../src/actors/idempotency-actor.ts'
export { ResponsesActor } from '../../src/actors/responses.ts'
export { BatchLines } from '../../src/relay/batch-lines.ts'

const DelayMs = z.number().int().min(0).max(60_000)
const Faults = z.object({
  /** Added before a ProgramActor admits. */
  admit_delay_ms: DelayMs.default(0),
  /** Added before a PoolActor leases. */
  lease_delay_ms: DelayMs.default(0),
  /** Questions to a PoolActor fail as they do when its object cannot be reached. */
  pool_unreachable: z.boolean().default(false),
  d1_down: z.boolean().default(false),
  /** D1 reads, and refuses every statement that writes. */
  d1_refuses: z.boolean().default(false),
  r2_down: z.boolean().default(false),
  /** Added to the wall clock. */
  clock_step_ms: z.number().int().default(0),
  /** Between two writes of a class's row in D1. */
  class_row_interval_ms: DelayMs.default(ROW_INTERVAL_MS),
  /** Replace the relay's times, so that tests do not wait for a host that has failed. */
  relay_times: z.partialRecord(z.enum(Object.keys(RELAY_TIMES) as (keyof RelayTimes)[]), DelayMs).default({}),
})
const PRODUCTION_TIMES = { ...RELAY_TIMES }
let faults = Faults.parse({})

const Target = z.object({ kind: z.enum(['PROGRAM', 'POOL', 'TENANT']), name: z.string() })

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const wallClock = Date.now
Date.now = () => wallClock() + faults.clock_step_ms

const WRITES = /^\s*(insert|update|delete|replace)\b/i

/** As D1 says it, of a database that has reached its size. */
function refuseWrite(): never {
  throw new Error('D1_ERROR: database or disk is full: SQLITE_FULL')
}

function withFaultyStores(env: Env): Env {
  const DB = new Proxy(env.DB, {
    get(target, name) {
      if (faults.d1_down) throw new Error('D1 is down')
      if (name === 'prepare')
        return (sql: string) => (faults.d1_refuses && WRITES.test(sql) ? refuseWrite() : target.prepare(sql))
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const BUCKET = new Proxy(env.BUCKET, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) =>
        faults.r2_down ? Promise.reject(new Error('R2 is down')) : Reflect.apply(value, target, args)
    },
  })
  return { ...env, DB, BUCKET }
}

export class ProgramActor extends RealProgramActor {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, withFaultyStores(env))
  }

  override async admit(...request: Parameters<RealProgramActor['admit']>): ReturnType<RealProgramActor['admit']> {
    if (faults.admit_delay_ms > 0) await sleep(faults.admit_delay_ms)
    return super.admit(...request)
  }

  evict(): void {
    this.ctx.abort('evicted')
  }

  /** As the platform may: at least once, and nothing says that the second waits for the first. */
  async alarmTwice(): Promise<void> {
    await Promise.all([this.alarm(), this.alarm()])
  }
}

export class PoolActor extends RealPoolActor {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, withFaultyStores(env))
  }

  override async lease(...request: Parameters<RealPoolActor['lease']>): ReturnType<RealPoolActor['lease']> {
    if (faults.lease_delay_ms > 0) await sleep(faults.lease_delay_ms)
    if (faults.pool_unreachable) throw new Error('the object cannot be reached')
    return super.lease(...request)
  }

  evict(): void {
    this.ctx.abort('evicted')
  }

  async alarmTwice(): Promise<void> {
    await Promise.all([this.alarm(), this.alarm()])
  }
}

export class ArchiveActor extends RealArchiveActor {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, withFaultyStores(env))
  }
}

export class ClassActor extends RealClassActor {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, withFaultyStores(env))
  }

  protected override get rowIntervalMs(): number {
    return faults.class_row_interval_ms
  }
}

export class TenantActor extends RealTenantActor {
  evict(): void {
    this.ctx.abort('evicted')
  }

  async alarmTwice(): Promise<void> {}
}

interface Disturbed {
  evict(): Promise<void>
  alarmTwice(): Promise<void>
}

function target(env: Env, body: unknown): Disturbed {
  const { kind, name } = Target.parse(body)
  return env[kind].getByName(name) as unknown as Disturbed
}

async function disturb(request: Request, env: Env, what: string): Promise<Response> {
  const body: unknown = await request.json()
  if (what === 'set') {
    faults = Faults.parse(body)
    Object.assign(RELAY_TIMES, PRODUCTION_TIMES, faults.relay_times)
    return Response.json(faults)
  }
  if (what === 'alarm-twice') {
    await target(env, body).alarmTwice()
    return new Response(null, { status: 204 })
  }
  if (what === 'evict') {
    // The object breaks off its own answer.
    await target(env, body)
      .evict()
      .catch(() => undefined)
    return new Response(null, { status: 204 })
  }
  return new Response(null, { status: 404 })
}

const FAULTS_PATH = '/faults/'

export default {
  async fetch(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith(FAULTS_PATH)) return disturb(request, env, pathname.slice(FAULTS_PATH.length))
    return app.fetch(request, withFaultyStores(env), context)
  },
}
