/**
 * One budget of a tenant, and one of a program of it, against everything at once: 200 calls in parallel over every endpoint,
 * streams that their clients cut, calls that are sent again, tickets that are shown again, a batch, and kill -9 of every
 * process under them. No more is spent than the budgets allow, it equals the agents' records, and nothing stays reserved.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { APIS, type Api } from '../../lab/chaos/apis.ts'
import { type ClientEnd, clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { LedgerBook, readLedgers, readProgram, unsettled } from '../../lab/chaos/ledger.ts'
import { ALL_RESERVED, type LimitedTenant, PRICES } from '../../lab/chaos/limited-tenants.ts'
import { overLimit, RESERVED_GONE_MS, stillReserved, unequalSpend } from '../../lab/chaos/spend-checks.ts'
import { resumedCalls } from '../../lab/chaos/stream-counts.ts'
import { forgeTickets } from '../../lab/chaos/tickets.ts'
import { periodEnd, periodLimits } from '../../src/core/budget/period-limits.ts'
import { hashSecret, keyIdOf } from '../../src/store/secrets.ts'
import { MODEL } from '../system/support/fleet-calls.ts'
import { eventually } from '../system/support/system.ts'

const CALLS = 200
const LINES = 20
/** About as much as four waves of the calls would use. */
const BUDGET = { month: { tokens: 40_000 } }
const PROGRAM = 'one-of-all'
const PROGRAM_TOKENS = 12_000
const OUTPUT_TOKENS = [20, 40, 60] as const
/** Under way on an engine before anything is killed. */
const OPEN_LEASES = 10
const SOME_STEPS_US = 50_000
const AGAIN_MS = 100
/** What the clock is set on in all, and more. */
const CLOCK_STEPS_MS = 4 * 60 * 60 * 1000

let fleet: Fleet
let limited: LimitedTenant
let apiKey: string
/** The control plane's clock is set on by this. */
let clock_step_ms = 0
/** Calls that were refused because the same call runs. */
let replays = 0

beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east', 'eu-west'], agents_per_region: 1, engines_per_agent: 1, model: MODEL },
    agent_flags: { seats: 32, slots: 96 },
  })
  // A month that ends while the clock is set on would have two budgets.
  if (periodEnd('month', Date.now()) - Date.now() < CLOCK_STEPS_MS) await setClockOn(CLOCK_STEPS_MS)
  await fleet.setPrices(PRICES)
  const made = await fleet.createTenant('one-budget', BUDGET)
  apiKey = made.apiKey
  const key = keyIdOf(await hashSecret(fleet.secrets.keyPepper, apiKey))
  limited = { tenant: made.tenant, limits: periodLimits(BUDGET), keys: [{ ...made, key, limits: null }] }
})
afterAll(() => fleet.remove())

async function setClockOn(by_ms: number): Promise<void> {
  clock_step_ms += by_ms
  await fleet.setFaults({ clock_step_ms })
}

const WHOLE_ENDS = ['completed', 'left']

const KNOWN =
  /^(completed|left|broken|error_event|400 embeddings_unsupported|402 (program|tenant)_budget_exceeded|409 idempotency_in_progress|429 .*|503 .*)$/

interface Wave {
  /** The kill is over, and what it broke works again. */
  isOver: boolean
  ends: string[]
}

/** Until it is served, or refused in a way that is final as long as nothing else happens. */
async function client(at: number, wave: Wave): Promise<void> {
  for (;;) {
    const end = await attempt(at)
    wave.ends.push(end)
    if (!/^(broken|error_event|409 |429 |503 )/.test(end)) return
    if (wave.isOver && ALL_RESERVED.some((code) => end === `429 ${code}`)) return
    if (wave.isOver && end === '429 program_budget_reserved') return
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
  }
}

function attempt(at: number): Promise<string> {
  const kind = at % 10
  if (kind === 7) return embeddings(at)
  const api = APIS[Math.floor(at / 10) % APIS.length] as Api
  const call = {
    ...{ url: fleet.url, api_key: apiKey, model: MODEL, api, stream: kind % 2 === 0, may_be_cut: true },
    ...{ prompt: `Part ${at} of the work.`, output_tokens: OUTPUT_TOKENS[at % OUTPUT_TOKENS.length] ?? 20 },
    program: at % 3 === 0 ? PROGRAM : null,
    headers: at % 3 === 0 ? { 'x-program-budget': `tokens=${PROGRAM_TOKENS}` } : {},
  }
  if (kind === 8) {
    const leaving = new AbortController()
    return clientCall({ ...call, signal: leaving.signal, onBytes: () => leaving.abort() }).then(wordOf)
  }
  if (kind === 9) {
    const headers = { ...call.headers, 'idempotency-key': randomUUID() }
    const sent = Array.from({ length: 3 }, () => clientCall({ ...call, headers }).then(wordOf))
    return Promise.all(sent).then((ends) => {
      replays += ends.filter((end) => end === '409 idempotency_in_progress').length
      return ends.find((end) => WHOLE_ENDS.includes(end) || end.startsWith('402 ')) ?? ends[0] ?? ''
    })
  }
  return clientCall(call).then(wordOf)
}

function wordOf(ended: ClientEnd): string {
  if (ended.end === 'refused') return `${ended.status} ${ended.code}`
  return ended.end === 'half_truth' ? `half_truth: ${ended.reason}: ${ended.text}` : ended.end
}

/** Neither costs anything: counting is none of an engine's work, and an emulated engine makes no embeddings. */
async function embeddings(at: number): Promise<string> {
  const counted = await asked('/v1/messages/count_tokens', { messages: [{ role: 'user', content: 'Count.' }] })
  const served = await asked('/v1/embeddings', { input: `Part ${at} of the work.` })
  return counted === 'completed' ? served : counted
}

async function asked(route: string, body: object): Promise<string> {
  try {
    const answer = await fleet.fetch(route, { method: 'POST', apiKey, body: JSON.stringify({ model: MODEL, ...body }) })
    const { error } = (await answer.json()) as { error?: { code?: string; details?: { error_code?: string } } }
    return answer.ok ? 'completed' : `${answer.status} ${error?.code ?? error?.details?.error_code}`
  } catch {
    return 'broken'
  }
}

async function startBatch(): Promise<string> {
  const lines = Array.from({ length: LINES }, (_, at) => {
    const body = { model: MODEL, messages: [{ role: 'user', content: `Line ${at}.` }], max_tokens: 20 }
    return JSON.stringify({ custom_id: `l-${at}`, method: 'POST', url: '/v1/chat/completions', body })
  })
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob([lines.join('\n')]), 'lines.jsonl')
  const headers = { authorization: `Bearer ${apiKey}` }
  const upload = await fetch(`${fleet.url}/v1/files`, { method: 'POST', headers, body: form })
  expect(upload.status).toBe(200)
  const { id: input_file_id } = (await upload.json()) as { id: string }
  const asked = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' }
  const started = await fleet.fetch('/v1/batches', { method: 'POST', apiKey, body: JSON.stringify(asked) })
  expect(started.status).toBe(200)
  return ((await started.json()) as { id: string }).id
}

function batchEnded(batch: string): Promise<boolean> {
  return eventually('the batch has ended', async () => {
    const { status } = (await (await fleet.fetch(`/v1/batches/${batch}`, { apiKey })).json()) as { status: string }
    return status === 'completed' || undefined
  })
}

/** 200 calls at once, and `kill` when some of them are under way. */
async function wave(what: string, kill: () => Promise<void>): Promise<string[]> {
  const known = new Set(readLedgers(fleet).map(({ lease }) => lease))
  const state: Wave = { isOver: false, ends: [] }
  const clients = Promise.all(Array.from({ length: CALLS }, (_, at) => client(at, state)))
  await eventually(`calls are under way before ${what}`, () => {
    const open = readLedgers(fleet).filter(
      ({ lease, record, wall_us }) => !known.has(lease) && record === null && wall_us > SOME_STEPS_US,
    )
    return open.length >= OPEN_LEASES || undefined
  })
  await kill()
  state.isOver = true
  await clients
  const unknown = state.ends.filter((end) => !KNOWN.test(end))
  expect(unknown, what).toEqual([])
  expect(await overLimit(fleet, limited), what).toEqual([])
  return state.ends
}

async function killAgent(at: number): Promise<void> {
  const agent = fleet.agents[at] as FleetAgent
  await agent.child.end('SIGKILL')
  await agent.child.start()
  expect(await forgeTickets(fleet, agent)).toEqual([])
}

async function killWorkerd(): Promise<void> {
  const workerd = await fleet.runningWorkerd()
  process.kill(workerd ?? 0, 'SIGKILL')
  await eventually('another workerd serves', async () => {
    if (!fleet.isControlPlaneUp) await fleet.startControlPlane()
    const running = await fleet.runningWorkerd()
    if (running === null || running === workerd) return undefined
    return (await fleet.fetch('/v1/models').catch(() => null))?.ok || undefined
  })
  await fleet.setFaults({ clock_step_ms })
}

async function killControlPlane(): Promise<void> {
  await fleet.endControlPlane('SIGKILL')
  await fleet.startControlPlane()
  await fleet.setFaults({ clock_step_ms })
}

it('holds against 200 calls over every endpoint while every process is killed', async () => {
  const batch = await startBatch()
  const ends = [
    ...(await wave('the first agent is killed', () => killAgent(0))),
    ...(await wave('the second agent is killed', () => killAgent(1))),
  ]
  // Before the clock is set: alarms go by the platform's.
  await batchEnded(batch)
  await fleet.evict('TENANT', limited.tenant)
  ends.push(...(await wave('workerd is killed', killWorkerd)))
  // What its isolates had reserved is given up.
  await setClockOn(RESERVED_GONE_MS)
  ends.push(...(await wave('the control plane is killed', killControlPlane)))
  await setClockOn(RESERVED_GONE_MS)
  expect(await stillReserved(fleet, [limited], clock_step_ms + RESERVED_GONE_MS)).toEqual([])
  await eventually('every record is acknowledged', () => {
    const { open_leases, unacknowledged } = unsettled(fleet)
    return open_leases + unacknowledged === 0 || undefined
  })

  expect(await overLimit(fleet, limited)).toEqual([])
  const book = new LedgerBook(fleet)
  const [owner = expect.fail()] = limited.keys
  const own = book.read().filter(({ tenant }) => tenant === limited.tenant)
  expect((await unequalSpend(fleet, owner, own)).unequal).toEqual([])
  expect(resumedCalls(book).size).toBeGreaterThan(0)
  const kinds = new Set(ends)
  for (const kind of ['completed', 'left', 'broken']) expect([...kinds]).toContain(kind)
  expect(replays).toBeGreaterThan(0)
  expect(ends.some((end) => end.startsWith('402 ') || end.startsWith('429 '))).toBe(true)
  const read = await readProgram(fleet, owner, PROGRAM)
  const { limit, used, reserved } = read?.summary.budget?.tokens ?? expect.fail('the program has a budget')
  // It has gone stale when the clock was set on, and has what its earlier run left.
  expect(limit - used).toBeLessThan(PROGRAM_TOKENS)
  expect(used + reserved).toBeLessThanOrEqual(limit)
})
