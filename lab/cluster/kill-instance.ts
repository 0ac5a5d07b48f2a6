/**
 * Kills one instance of a cluster (workerd.ts) under load, and counts what clients saw and whether every call was charged once:
 * the process table equals the ledgers that the engines wrote, to the microsecond.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fail, flagsOrExit } from '../../cli/flags.ts'
import { dataDir } from '../../ops/system/data-dir.ts'
import { readDevJson } from '../../ops/system/dev-json.ts'
import { readLedgers, readProgram, unsettled } from '../chaos/ledger.ts'
import { pidFileOf } from './cluster-config.ts'

const HELP = `Kills an instance of a running cluster with SIGKILL while programs run, and checks that every call is charged once.

  node lab/cluster/kill-instance.ts --data-dir DIR [flags]

  --data-dir DIR   of a system that \`npm run up\` started with SWITCHYARD_WORKERD=lab/cluster/workerd (docs/self-host.md)
  --instance N     which one is killed, after 15 s (default 2)
  --seconds S      of load (default 90)
  --help`
const KILL_AFTER_MS = 15_000
const SETTLE_MS_MAX = 120_000
const CLIENTS = 4
const CALLS_PER_PROGRAM = 5

const flags = flagsOrExit('kill-instance', HELP, {
  'data-dir': { type: 'string', default: '' },
  instance: { type: 'string', default: '2' },
  seconds: { type: 'string', default: '90' },
})
const place = dataDir(flags['data-dir'])
const found = await readDevJson(place.devJson)
if (found === null) fail(`Nothing runs in ${place.root}. Start it with npm run up -- --data-dir ${flags['data-dir']}`)
const { url, apiKey, model } = found
const agents = found.agents.map(({ id }) => ({ id, outbox: path.join(place.agent(id), 'outbox.sqlite') }))
const tenant = { tenant: 'local', apiKey }
const control = {
  fetch: (route: string, init: { apiKey: string }) =>
    fetch(`${url}${route}`, { headers: { authorization: `Bearer ${init.apiKey}` } }),
}
const began = performance.now()
const ends_at = began + Number(flags.seconds) * 1000
const outcomes = new Map<string, number>()
/** Whole answers, by program. */
const whole = new Map<string, number>()
const whole_at: number[] = []
let slowest_ms = 0

async function call(program: string): Promise<string> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', 'x-program-id': program },
      body: JSON.stringify({ model, max_tokens: 8, stream: true, messages: [{ role: 'user', content: program }] }),
    })
    const text = await response.text()
    if (!response.ok) return `${response.status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`
    return text.includes('[DONE]') && !text.includes('"error"') ? 'whole' : 'broken'
  } catch {
    return 'connection lost'
  }
}

async function client(number: number): Promise<void> {
  for (let index = 0; performance.now() < ends_at; index += 1) {
    const program = `kill-${Math.round(began)}-${number}-${Math.floor(index / CALLS_PER_PROGRAM)}`
    const started = performance.now()
    const outcome = await call(program)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    if (!whole.has(program)) whole.set(program, 0)
    if (outcome !== 'whole') continue
    whole.set(program, (whole.get(program) ?? 0) + 1)
    whole_at.push(performance.now())
    slowest_ms = Math.max(slowest_ms, performance.now() - started)
  }
}

async function killer(): Promise<void> {
  await sleep(KILL_AFTER_MS)
  process.kill(Number(readFileSync(pidFileOf(path.join(place.state, 'do'), Number(flags.instance)), 'utf8')), 'SIGKILL')
  console.log(`Killed instance ${flags.instance} after ${Math.round((performance.now() - began) / 1000)} s.`)
}

await Promise.all([killer(), ...Array.from({ length: CLIENTS }, (_, number) => client(number))])
const settle_until = performance.now() + SETTLE_MS_MAX
let open = unsettled({ agents })
while (open.open_leases + open.unacknowledged > 0 && performance.now() < settle_until) {
  await sleep(1000)
  open = unsettled({ agents })
}
const ledgers = readLedgers({ agents })
const faults: string[] = []
for (const [program, seen] of whole) {
  const listed = await readProgram(control, tenant, program)
  const completed = listed?.calls.filter(({ outcome }) => outcome === 'completed').length ?? 0
  // A client that lost its connection may not have seen the end of a call that completed.
  if (completed < seen) faults.push(`${program}: ${seen} whole answers, ${completed} completed calls`)
  const table_us = Math.round((listed?.summary.service_wall_s ?? 0) * 1e6)
  const ledger_us = ledgers.filter((lease) => lease.program === program).reduce((sum, { wall_us }) => sum + wall_us, 0)
  if (table_us !== ledger_us) faults.push(`${program}: ${table_us} us in the table, ${ledger_us} us in the ledgers`)
}
const gaps = whole_at.sort((a, b) => a - b).map((at, index) => at - (whole_at[index - 1] ?? at))
console.log(`Calls: ${[...outcomes].map(([outcome, count]) => `${count} ${outcome}`).join(', ')}`)
console.log(`Longest time without a whole answer: ${(Math.max(...gaps) / 1000).toFixed(1)} s`)
console.log(`Slowest whole answer: ${(slowest_ms / 1000).toFixed(1)} s`)
console.log(`Programs: ${whole.size}, leases open ${open.open_leases}, records unacknowledged ${open.unacknowledged}`)
for (const line of faults) console.log(line)
if (faults.length > 0 || open.open_leases + open.unacknowledged > 0) fail('A call was lost or charged twice.')
console.log('Every call is in the process table, and its service equals the engines’ ledgers to the microsecond.')
