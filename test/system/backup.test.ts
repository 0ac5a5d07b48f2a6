/**
 * `switchyard backup` of a system that serves, and `switchyard restore` after all of it was killed with kill -9: what was
 * acknowledged before the start of the backup is there to the microsecond, each program's sums are those of its leases, and
 * nothing counts twice.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ROOT } from '../../lab/testbed/repository.ts'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { eventually, System } from './support/system.ts'

const MODEL = 'emulated-8b'
const PROGRAMS = 12
const LANES = 4
const HOLD_MS_MAX = 5000
const SUMS = ['service_s', 'service_wall_s', 'service_modelled_s'] as const

interface Lease {
  id: string
  state: string
  error_code: string | null
  service_s: number
  service_wall_s: number
  service_modelled_s: number
  wait_s: number
}
interface Program {
  open_calls: number
  service_s: number
  service_wall_s: number
  service_modelled_s: number
}
type Settled = Map<string, { program: string; lease: Lease }>

let system: System
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-backup-'))
  system = await System.start({ engine: 'emulated' })
})
afterAll(async () => {
  await system.remove()
  rmSync(folder, { recursive: true, force: true })
})

function cli(...args: string[]) {
  return runCommand('ops/switchyard/main.ts', [...args, '--data-dir', system.dataDir], { timeout_ms: 120_000 })
}

const us = (seconds: number): number => Math.round(seconds * 1e6)

async function call(program: string): Promise<boolean> {
  const response = await system.fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'X-Program-Id': program },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: program }], max_tokens: 12 }),
  })
  await response.text()
  return response.ok
}

/** Calls without pause, until they are told to stop. */
function load() {
  let stopping = false
  const counts = { completed: 0, failed: 0 }
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    for (let turn = lane; !stopping; turn += 1) {
      if (await call(`p${turn % PROGRAMS}`)) counts.completed += 1
      else counts.failed += 1
    }
  })
  const stop = async (): Promise<void> => {
    stopping = true
    await Promise.all(lanes)
  }
  return { counts, stop }
}

async function json<T>(route: string): Promise<T> {
  const response = await system.fetch(route)
  expect(response.status, route).toBe(200)
  return (await response.json()) as T
}

async function leasesOf(program: string): Promise<Lease[]> {
  const leases: Lease[] = []
  let cursor = ''
  do {
    const page: { data: { leases: Lease[] }[]; next_cursor: string | null } = await json(
      `/v1/programs/${program}/calls?limit=100${cursor}`,
    )
    leases.push(...page.data.flatMap((one) => one.leases))
    cursor = page.next_cursor === null ? '' : `&cursor=${encodeURIComponent(page.next_cursor)}`
  } while (cursor !== '')
  return leases
}

/** Leases whose records the control plane has acknowledged. */
async function settled(): Promise<Settled> {
  const found: Settled = new Map()
  for (let index = 0; index < PROGRAMS; index += 1) {
    const program = `p${index}`
    for (const lease of await leasesOf(program)) if (lease.state === 'settled') found.set(lease.id, { program, lease })
  }
  return found
}

async function killEverything(): Promise<void> {
  const { pid, controlPlanePid, agents } = system.dev
  for (const one of [pid, controlPlanePid, ...agents.map((agent) => agent.pid)]) process.kill(one, 'SIGKILL')
  // Ends what the guard has not ended yet.
  await system.down()
}

it('gives back what was acknowledged before its start', async () => {
  const target = path.join(folder, 'first')
  const { counts, stop } = load()
  await eventually('there is a load', () => counts.completed >= 3 * PROGRAMS || undefined, 120_000)
  const before = await settled()
  expect(before.size).toBeGreaterThan(0)
  const failed = counts.failed
  const made = await cli('backup', target, '--json')
  expect(made.code, made.stderr).toBe(0)
  const { held_ms } = JSON.parse(made.stdout) as { held_ms: number }
  expect(held_ms).toBeLessThanOrEqual(HOLD_MS_MAX)
  const served = counts.completed
  await eventually('it serves on', () => counts.completed > served + LANES || undefined, 120_000)
  await stop()
  // Calls waited, and none was refused.
  expect(counts.failed).toBe(failed)
  await eventually('every record is acknowledged', async () => {
    const programs = await Promise.all(
      Array.from({ length: PROGRAMS }, (_, index) => json<Program>(`/v1/programs/p${index}`)),
    )
    return programs.every(({ open_calls }) => open_calls === 0) || undefined
  })
  const after = await settled()
  expect(after.size).toBeGreaterThan(before.size)

  await killEverything()
  const restored = await cli('restore', target, '--json')
  expect(restored.code, restored.stderr).toBe(0)
  const { replaced } = JSON.parse(restored.stdout) as { replaced: string }
  expect(readdirSync(replaced).sort()).toEqual(['agents', 'secrets.json', 'state'])
  await system.up()

  const found = await eventually('records of the outboxes have come', async () => {
    const now = await settled()
    return [...before.keys()].every((lease) => now.has(lease)) ? now : undefined
  })
  for (const [id, one] of found) {
    const served = after.get(id)
    // It was open when its agent's outbox was copied: what it had cost until then counts, and its end is not known.
    const was_open = !before.has(id) && one.lease.error_code === 'agent_restarted'
    if (!was_open) expect(served, `${one.program} ${id}`).toEqual(one)
    for (const sum of SUMS) expect(us(one.lease[sum]), `${id} ${sum}`).toBeLessThanOrEqual(us(served?.lease[sum] ?? 0))
  }
  for (let index = 0; index < PROGRAMS; index += 1) {
    const [program, leases] = await Promise.all([json<Program>(`/v1/programs/p${index}`), leasesOf(`p${index}`)])
    for (const sum of SUMS) {
      expect(us(program[sum]), `p${index} ${sum}`).toBe(leases.reduce((total, lease) => total + us(lease[sum]), 0))
    }
  }
  // Keys are those of before.
  expect(await call('p0')).toBe(true)
})

it('is whole or not there when it is killed with kill -9, and the system serves on', async () => {
  const target = path.join(folder, 'cut')
  const script = path.join(ROOT, 'ops/switchyard/main.ts')
  const backup = spawn(process.execPath, [script, 'backup', target, '--data-dir', system.dataDir], { stdio: 'ignore' })
  const exited = once(backup, 'exit')
  await eventually(
    'it copies',
    () => readdirSync(folder).some((name) => name.startsWith('.partial-')) || backup.exitCode !== null || undefined,
  )
  backup.kill('SIGKILL')
  await exited
  expect(await call('p1')).toBe(true)
  // It may have been done before it was killed.
  if (!existsSync(target)) expect((await cli('backup', target)).code).toBe(0)
  expect(readdirSync(folder).filter((name) => name.startsWith('.partial-'))).toEqual([])
  expect(statSync(target).mode & 0o077).toBe(0)
})

it('refuses a folder that is not empty, a damaged backup, and a system that runs', async () => {
  const target = path.join(folder, 'first')
  expect(await cli('backup', target)).toMatchObject({ code: 1, stderr: expect.stringContaining('is not empty') })
  expect(await cli('restore', target)).toMatchObject({ code: 1, stderr: expect.stringContaining('Stop it first') })
  expect(await cli('restore', folder)).toMatchObject({ code: 1, stderr: expect.stringContaining('is not a backup') })
  appendFileSync(path.join(target, 'secrets.json'), ' ')
  expect(await cli('restore', target)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('secrets.json of the backup'),
  })
  expect(await call('p2')).toBe(true)
})
