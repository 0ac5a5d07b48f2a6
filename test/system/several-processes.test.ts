/** `up --workers 3`: one control plane of three processes. What one of them has, every client sees, and so does the next start with one. */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { unsettled } from '../../lab/chaos/ledger.ts'
import { pidFile } from '../../ops/system/guard.ts'
import { parseProcessRecord } from '../../ops/system/processes.ts'
import { objectsFolder } from '../../ops/workerd/process-folder.ts'
import { WORKERD_NAME, workerdSuffix } from '../../ops/workerd/workerd-launcher.ts'
import { reconciled } from './support/fleet-calls.ts'
import { eventually, System } from './support/system.ts'

const WORKERS = 3
const PROGRAMS = Array.from({ length: 24 }, (_, n) => `of-several-${n}`)
const LINES = 30
const OBJECT_FILE = /^[0-9a-f]{64}\.sqlite$/

let system: System
let file_id = ''
let batch_id = ''
let response_id = ''

beforeAll(async () => {
  system = await System.start({ engine: 'emulated', flags: ['--workers', String(WORKERS)] })
})
afterAll(async () => {
  await (system as System | undefined)?.remove()
})

/** A connection of its own, so that the next one meets another process. */
async function ask(program: string, stream: boolean): Promise<void> {
  const body = JSON.stringify({ ...request('Count.'), stream })
  const headers = { 'x-program-id': program, connection: 'close' }
  const answer = await system.fetch('/v1/chat/completions', { method: 'POST', body, headers })
  expect(answer.status, await answer.clone().text()).toBe(200)
  await answer.text()
}

const request = (content: string) => ({
  model: system.dev.model,
  max_tokens: 8,
  messages: [{ role: 'user' as const, content }],
})

const objectsOf = (index: number, kind: string): number =>
  readdirSync(path.join(objectsFolder(path.join(system.dataDir, 'state'), index), `switchyard-${kind}`)).filter(
    (name) => OBJECT_FILE.test(name),
  ).length

function responsesWritten(): number {
  let written = 0
  for (let index = 0; index < WORKERS; index += 1) {
    const folder = path.join(objectsFolder(path.join(system.dataDir, 'state'), index), 'switchyard-ResponsesActor')
    if (!existsSync(folder)) continue
    for (const name of readdirSync(folder).filter((file) => OBJECT_FILE.test(file))) {
      const database = new Database(path.join(folder, name), { readonly: true })
      // An object without a response has no table.
      const tables = database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'entries'").all()
      if (tables.length > 0) written += database.prepare('SELECT 1 FROM entries').all().length
      database.close()
    }
  }
  return written
}

const pidOf = (index: number): number | undefined => {
  const file = pidFile(path.join(system.dataDir, 'run', 'control-plane'), `${WORKERD_NAME}${workerdSuffix(index)}`)
  return parseProcessRecord(readFileSync(file, 'utf8'))?.pid
}

it('programs are spread over the processes, every call is answered, and each lease is settled once', async () => {
  for (const stream of [false, true]) await Promise.all(PROGRAMS.map((program) => ask(program, stream)))
  await settled()
  for (let index = 0; index < WORKERS; index += 1) expect(objectsOf(index, 'ProgramActor')).toBeGreaterThan(0)
})

it('files, a batch, a stored response and the admin API are the same in every process', async () => {
  const client = system.client()
  const lines = Array.from({ length: LINES }, (_, n) =>
    JSON.stringify({ custom_id: `l${n}`, method: 'POST', url: '/v1/chat/completions', body: request(`${n}?`) }),
  ).join('\n')
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob([lines]), 'in.jsonl')
  const { url, apiKey, adminKey } = system.dev
  const headers = { authorization: `Bearer ${apiKey}`, connection: 'close' }
  const made = await fetch(`${url}/v1/files`, { method: 'POST', headers, body: form })
  file_id = ((await made.json()) as { id: string }).id
  for (let n = 0; n < WORKERS; n += 1) {
    const read = await fetch(`${url}/v1/files/${file_id}/content`, { headers })
    expect(sha(await read.text())).toBe(sha(lines))
  }
  const created = {
    input_file_id: file_id,
    endpoint: '/v1/chat/completions' as const,
    completion_window: '24h' as const,
  }
  batch_id = (await client.batches.create(created)).id
  const output = await eventually('the batch ends', async () => {
    const { status, output_file_id } = await client.batches.retrieve(batch_id)
    return status === 'completed' ? output_file_id : undefined
  })
  const content = await (await client.files.content(output ?? '')).text()
  expect(
    content
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id),
  ).toEqual(Array.from({ length: LINES }, (_, n) => `l${n}`))
  response_id = (await client.responses.create({ model: system.dev.model, input: 'Count.', max_output_tokens: 16 })).id
  // Responses are written soon after. The kills below must not come before.
  await eventually('the response is written', () => responsesWritten() > 0 || undefined)
  for (let n = 0; n < WORKERS; n += 1) {
    const pools = await system.fetch('/admin/v1/pools', { apiKey: adminKey, headers: { connection: 'close' } })
    const { pools: listed } = (await pools.json()) as { pools: { engines: { state: string }[] }[] }
    expect(listed.flatMap(({ engines }) => engines.map(({ state }) => state))).toEqual(['ready', 'ready'])
  }
})

it('a question to a process that does not come from another one is refused', async () => {
  const log = readFileSync(path.join(system.dataDir, 'logs', 'control-plane.log'), 'utf8')
  expect(log).toContain('"workerd_pids"')
  const ports = listening(pidOf(1) ?? 0)
  expect(ports.length).toBeGreaterThan(1)
  for (const port of ports) {
    const headers = { 'x-switchyard-peer': 'guessed', 'x-switchyard-object': JSON.stringify(['TENANT', 'local']) }
    const answer = await fetch(`http://127.0.0.1:${port}/link`, { headers }).catch(() => null)
    // One is the public side of the process, which refuses the path.
    expect([403, 404, null]).toContain(answer?.status ?? null)
  }
})

it('kill -9 of each process in turn: it is started again, and every program goes on', async () => {
  for (let index = 0; index < WORKERS; index += 1) {
    const before = pidOf(index)
    process.kill(before ?? 0, 'SIGKILL')
    await eventually('it runs again', () => (pidOf(index) === before ? undefined : true))
    await eventually('its programs are served', async () => {
      const answers = await Promise.all(
        PROGRAMS.map((program) =>
          ask(program, false).then(
            () => true,
            () => false,
          ),
        ),
      )
      return answers.every(Boolean) || undefined
    })
  }
  await settled()
})

it('the next start with one process has everything, and one with two again', async () => {
  for (const workers of ['1', '2']) {
    await system.down()
    const flags = ['--workers', workers]
    system = await System.start({ engine: 'emulated', dataDir: system.dataDir, port: system.port, flags })
    await Promise.all(PROGRAMS.map((program) => ask(program, true)))
    await settled()
    const client = system.client()
    expect((await client.batches.retrieve(batch_id)).status).toBe('completed')
    expect((await client.responses.retrieve(response_id)).id).toBe(response_id)
    expect((await client.files.retrieve(file_id)).id).toBe(file_id)
    expect(readdirSync(path.join(system.dataDir, 'state')).filter((name) => name.startsWith('process-'))).toEqual(
      workers === '1' ? [] : ['process-1'],
    )
  }
})

async function settled(): Promise<void> {
  const tenant = { tenant: 'local', apiKey: system.dev.apiKey }
  await reconciled({ agents: system.agents, fetch: system.fetch.bind(system) }, [tenant], PROGRAMS, 60_000)
  expect(unsettled({ agents: system.agents })).toEqual({ open_leases: 0, unacknowledged: 0 })
}

const sha = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Ports of 127.0.0.1 on which a process listens. */
function listening(pid: number): number[] {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /socket:\[(\d+)\]/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? []
      } catch {
        return []
      }
    }),
  )
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === '0A' && inodes.has(inode ?? ''))
    .map(([, local]) => Number.parseInt(local?.split(':')[1] ?? '', 16))
}
