/**
 * Batches with the openai package on the real model: every API, online calls beside a batch, and kill -9 of an agent and of
 * the control plane in the middle, with conservation to the microsecond.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import type OpenAI from 'openai'
import { toFile } from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CLIENTS } from '../../lab/clients/clients.ts'
import { installClient } from '../../lab/clients/environments.ts'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { eventually, System } from './support/system.ts'

const CHAT = '/v1/chat/completions'
let system: System
let client: OpenAI

beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
  client = system.client()
})
afterAll(() => system.remove())

interface Output {
  custom_id: string
  response: { status_code: number; request_id: string; body: Record<string, unknown> } | null
  error: { code: string } | null
}

function chatLines(count: number, output_tokens: number) {
  return Array.from({ length: count }, (_, index) => ({
    ...{ custom_id: `line-${index}`, method: 'POST', url: CHAT },
    body: {
      ...{ model: system.dev.model, max_tokens: output_tokens, temperature: 0 },
      messages: [{ role: 'user', content: `Count from ${index} upwards.` }],
    },
  }))
}

async function started(lines: readonly object[], endpoint: string, completion_window = '24h') {
  const text = lines.map((line) => JSON.stringify(line)).join('\n')
  const file = await client.files.create({ file: await toFile(Buffer.from(text), 'in.jsonl'), purpose: 'batch' })
  return client.batches.create({
    ...{ input_file_id: file.id, endpoint: endpoint as never, completion_window: completion_window as '24h' },
    metadata: { from: 'test' },
  })
}

const ENDED = ['completed', 'failed', 'expired', 'cancelled']

function ended(id: string): Promise<OpenAI.Batch> {
  return eventually(`the batch ${id} has ended`, async () => {
    try {
      const batch = await client.batches.retrieve(id)
      return ENDED.includes(batch.status) ? batch : undefined
    } catch {
      // The control plane was killed a moment ago.
      return undefined
    }
  })
}

async function outputOf(file: string | null | undefined): Promise<Output[]> {
  if (file == null) return []
  const text = await (await client.files.content(file)).text()
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

it.each([
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 }, 'choices'],
  ['/v1/completions', { prompt: 'One two', max_tokens: 4 }, 'choices'],
  ['/v1/embeddings', { input: 'One two' }, 'data'],
  ['/v1/responses', { input: 'Hi', max_output_tokens: 4 }, 'output'],
  ['/v1/messages', { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 }, 'content'],
])('%s is an endpoint of batches', async (endpoint, body, field) => {
  const line = { custom_id: 'one', method: 'POST', url: endpoint, body: { model: system.dev.model, ...body } }
  const refused = { ...line, custom_id: 'two', body: { ...line.body, temperature: 'hot', input: 7, prompt: 7 } }
  const batch = await ended((await started([line, refused], endpoint)).id)
  expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 2, completed: 1, failed: 1 } })
  const [answer] = await outputOf(batch.output_file_id)
  expect(answer).toMatchObject({ custom_id: 'one', error: null, response: { status_code: 200 } })
  expect(answer?.response?.body).toHaveProperty(field)
  expect(await outputOf(batch.error_file_id)).toMatchObject([{ custom_id: 'two', response: { status_code: 400 } }])
  expect(batch.usage?.input_tokens).toBeGreaterThan(0)
})

it('an online call beside a batch is served before its lines', async () => {
  const batch = await started(chatLines(60, 24), CHAT)
  await eventually('lines run', async () => {
    const { request_counts } = await client.batches.retrieve(batch.id)
    return (request_counts?.completed ?? 0) >= 4 || undefined
  })
  const answers = []
  for (let index = 0; index < 6; index += 1) {
    const { usage } = await client.chat.completions.create({
      ...{ model: system.dev.model, max_tokens: 8, temperature: 0 },
      messages: [{ role: 'user', content: `Online ${index}` }],
    })
    answers.push((usage as unknown as { switchyard: { wait_s: number; service_wall_s: number } }).switchyard)
  }
  // No call waits for a line to end. A decision and a step are all that it may wait for.
  for (const { wait_s, service_wall_s } of answers) expect(wait_s).toBeLessThanOrEqual(service_wall_s + 1)
  const done = await ended(batch.id)
  expect(done.request_counts).toEqual({ total: 60, completed: 60, failed: 0 })
})

interface Sums {
  wall_us: number
  modelled_us: number
  leases: number
}

/** By the engines' ledgers, of lines of batches. */
function ledger(): Sums {
  const sums = { wall_us: 0, modelled_us: 0, leases: 0 }
  for (const { id } of system.dev.agents) {
    const db = new Database(path.join(system.dataDir, 'agents', id, 'outbox.sqlite'), { readonly: true })
    const rows = db
      .prepare(
        `select coalesce(sum(wall_us), 0) as wall_us, coalesce(sum(modelled_us), 0) as modelled_us
         from leases left join ledger on ledger.lease = leases.lease
         where json_extract(leases.claims, '$.offline') group by leases.lease`,
      )
      .all() as { wall_us: number; modelled_us: number }[]
    db.close()
    for (const row of rows) {
      sums.wall_us += row.wall_us
      sums.modelled_us += row.modelled_us
      sums.leases += 1
    }
  }
  return sums
}

async function metered(): Promise<Sums> {
  const { data } = (await (await system.fetch('/v1/usage?limit=100')).json()) as {
    data: { leases: number; service_wall_s: number; service_modelled_s: number }[]
  }
  return {
    wall_us: data.reduce((sum, row) => sum + Math.round(row.service_wall_s * 1e6), 0),
    modelled_us: data.reduce((sum, row) => sum + Math.round(row.service_modelled_s * 1e6), 0),
    leases: data.reduce((sum, row) => sum + row.leases, 0),
  }
}

it('kill -9 of an agent and of the control plane: nothing is lost, repeated or out of order, and all of it is metered', async () => {
  const lines = chatLines(160, 12)
  const batch = await started(lines, CHAT)
  const completed = async (): Promise<number> => {
    try {
      return (await client.batches.retrieve(batch.id)).request_counts?.completed ?? 0
    } catch {
      // As above.
      return 0
    }
  }
  await eventually('some lines have run', async () => (await completed()) >= 20 || undefined)
  const victim = system.dev.agents[0] as { id: string; pid: number }
  process.kill(victim.pid, 'SIGKILL')
  await eventually('the agent is back', () =>
    system.dev.agents.find(({ id, pid }) => id === victim.id && pid !== victim.pid),
  )
  await eventually('more lines have run', async () => (await completed()) >= 60 || undefined)
  const { controlPlanePid } = system.dev
  process.kill(controlPlanePid, 'SIGKILL')
  await eventually(
    'the control plane is back',
    async () => (system.dev.controlPlanePid !== controlPlanePid && (await system.fetch('/healthz')).ok) || undefined,
  )
  const done = await ended(batch.id)
  expect(done).toMatchObject({ status: 'completed', request_counts: { total: 160, completed: 160, failed: 0 } })
  const output = await outputOf(done.output_file_id)
  expect(output.map(({ custom_id }) => custom_id)).toEqual(lines.map(({ custom_id }) => custom_id))
  expect(output.every(({ response }) => response?.status_code === 200)).toBe(true)
  await eventually(
    'every lease is metered',
    async () => JSON.stringify(await metered()) === JSON.stringify(ledger()) || undefined,
  )
})

it('a cancelled batch delivers what has finished, and the command line runs one from a file', async () => {
  const batch = await started(chatLines(400, 40), CHAT)
  await eventually('lines run', async () => {
    const { request_counts } = await client.batches.retrieve(batch.id)
    return (request_counts?.completed ?? 0) >= 3 || undefined
  })
  expect((await client.batches.cancel(batch.id)).status).toBe('cancelling')
  const done = await ended(batch.id)
  expect(done.status).toBe('cancelled')
  expect((await outputOf(done.output_file_id)).length).toBe(done.request_counts?.completed)

  const env = { SWITCHYARD_URL: system.dev.url, SWITCHYARD_API_KEY: system.dev.apiKey }
  const input = path.join(system.dataDir, 'tmp', 'in.jsonl')
  writeFileSync(
    input,
    chatLines(3, 4)
      .map((line) => `${JSON.stringify(line)}\n`)
      .join(''),
  )
  const run = (...args: string[]) => runCommand('ops/switchyard/main.ts', args, { env })
  const made = await run('batches', 'create', input, '--wait', '--json')
  expect(made.stderr).not.toContain('switchyard:')
  const { id, status } = JSON.parse(made.stdout) as { id: string; status: string }
  expect(status).toBe('completed')
  const output = await run('batches', 'output', id)
  expect(output.stdout.trimEnd().split('\n')).toHaveLength(3)
  expect((await run('batches', 'output', id, '--errors')).stderr).toContain('there is no error file')
  expect((await run('files', 'list')).stdout).toContain('batch_output')
})

it('the Python package, in its strict mode, reads every answer', async () => {
  const python = CLIENTS.find(({ id }) => id === 'openai-py')
  if (python === undefined) expect.unreachable('the Python package is not among the clients')
  const made = await installClient(python)
  if (!made.ok) expect.unreachable(made.reason)
  const program = path.join(import.meta.dirname, 'support/batches_conformance.py')
  const { url, apiKey, model } = system.dev
  const run = await runTool([made.interpreter, program, `${url}/v1`, apiKey, model], { timeout_ms: 120_000 })
  if (run.status !== 'done') expect.unreachable(JSON.stringify(run))
  expect(JSON.parse(run.output)).toEqual({
    completed: {
      ...{ status: 'completed', counts: { total: 6, completed: 6, failed: 0 }, metadata: { from: 'python' } },
      ...{ order: [0, 1, 2, 3, 4, 5].map((line) => `line-${line}`), listed: true, files: true },
    },
    cancelled: { status: 'cancelled', whole: true },
    failed: ['failed', [1, 2]],
    refusals: [true, 'NotFoundError', 'NotFoundError', 'NotFoundError'],
  })
})
