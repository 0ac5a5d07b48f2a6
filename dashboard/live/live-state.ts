/** The live view's state: what the events said so far, put together. Pure. */
import type { LiveEvent, LivePool, LiveProgram, LiveTenant } from '../../src/protocol/live.ts'

export interface TenantState extends Omit<LiveTenant, 'reset' | 'changed' | 'gone'> {
  programs: ReadonlyMap<string, LiveProgram>
}

export interface LiveState {
  at_ms: number
  tenants: ReadonlyMap<string, TenantState>
  pools: readonly LivePool[]
  tenants_left_out: number
  pools_left_out: number
}

export const NOTHING_YET: LiveState = {
  at_ms: 0,
  tenants: new Map(),
  pools: [],
  tenants_left_out: 0,
  pools_left_out: 0,
}

export function withEvent(state: LiveState, event: LiveEvent): LiveState {
  const tenants = new Map<string, TenantState>()
  for (const { reset, changed, gone, ...told } of event.tenants) {
    const known = state.tenants.get(told.id)?.programs
    if (!reset && known !== undefined && changed.length === 0 && gone.length === 0) {
      tenants.set(told.id, { ...told, programs: known })
      continue
    }
    const programs = new Map(reset ? [] : known)
    for (const id of gone) programs.delete(id)
    for (const program of changed) programs.set(program.id, program)
    tenants.set(told.id, { ...told, programs })
  }
  const { at_ms, pools, tenants_left_out, pools_left_out } = event
  return { at_ms, tenants, pools: pools ?? state.pools, tenants_left_out, pools_left_out }
}

export interface Row {
  /** Unique over tenants. */
  key: string
  tenant: string
  program: LiveProgram
}

export type Order = 'newest' | 'service' | 'wait'
export type Activity = 'all' | 'reasoning' | 'acting'

export const activityOf = ({ open_calls, calls }: LiveProgram): 'reasoning' | 'acting' | 'new' => {
  if (open_calls > 0) return 'reasoning'
  return calls > 0 ? 'acting' : 'new'
}

const ORDERS: Record<Order, (a: LiveProgram, b: LiveProgram) => number> = {
  newest: (a, b) => b.started_at_ms - a.started_at_ms,
  service: (a, b) => b.service_s - a.service_s,
  wait: (a, b) => (b.detail?.wait_s ?? 0) - (a.detail?.wait_s ?? 0),
}

/** Of a thousand programs few change in a second: the rows of the others are made once. */
const made = new WeakMap<LiveProgram, Row>()

function rowOf(tenant: string, program: LiveProgram): Row {
  const known = made.get(program)
  if (known !== undefined) return known
  const row = { key: JSON.stringify([tenant, program.id]), tenant, program }
  made.set(program, row)
  return row
}

function wordsOf(tenant: string, { id, app, class: name, detail }: LiveProgram): (string | null | undefined)[] {
  return [id, app, name, tenant, detail?.engine, detail?.region, ...(detail?.tools ?? []).map((tool) => tool.name)]
}

export function rowsOf(state: LiveState, order: Order, activity: Activity, text: string): Row[] {
  const wanted = text.trim().toLowerCase()
  const rows: Row[] = []
  for (const [tenant, { programs }] of state.tenants) {
    for (const program of programs.values()) {
      if (activity !== 'all' && activityOf(program) !== activity) continue
      if (wanted === '' || wordsOf(tenant, program).some((word) => word?.toLowerCase().includes(wanted)))
        rows.push(rowOf(tenant, program))
    }
  }
  return rows.sort((a, b) => ORDERS[order](a.program, b.program) || (a.key < b.key ? -1 : 1))
}

/** What the headline says. */
export function totalsOf(state: LiveState) {
  const totals = { running: 0, reasoning: 0, acting: 0, tokens_per_s: 0, prompt_tokens: 0, cached_tokens: 0 }
  for (const { programs, running, output_tokens_per_s } of state.tenants.values()) {
    totals.running += running
    totals.tokens_per_s += output_tokens_per_s
    for (const program of programs.values()) {
      const activity = activityOf(program)
      if (activity !== 'new') totals[activity] += 1
      totals.prompt_tokens += program.detail?.prompt_tokens ?? 0
      totals.cached_tokens += program.detail?.cached_tokens ?? 0
    }
  }
  const engines = state.pools.flatMap((pool) => pool.engines)
  const sum = (of: (engine: (typeof engines)[number]) => number) => engines.reduce((all, one) => all + of(one), 0)
  return {
    ...totals,
    waiting: sum(({ waiting, leases_since_report }) => waiting + leases_since_report),
    in_seats: sum(({ running }) => running),
    seats: sum(({ seats, state: is }) => (is === 'ready' ? seats : 0)),
  }
}
