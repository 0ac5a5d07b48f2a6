/**
 * An application through `switchyard apps` on the real model: two nodes that answer, a chain summary and a judge, with kill -9 of
 * an engine's process, of an agent and of the control plane in the middle.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { engineProcess } from '../../lab/chaos/stream-engines.ts'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { eventually, System } from './support/system.ts'

let system: System

beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
})
afterAll(() => system.remove())

const run = (...args: string[]) => {
  const env = { SWITCHYARD_URL: system.dev.url, SWITCHYARD_API_KEY: system.dev.apiKey }
  return runCommand('ops/switchyard/main.ts', args, { env, timeout_ms: 300_000 })
}

interface NodeLine {
  line: number
  chunk?: number
  chunks?: number
  copy?: number
  output: string | null
  error: object | null
}

async function outputOf(id: string, node: string): Promise<NodeLine[]> {
  const { stdout } = await run('apps', 'output', id, '--node', node)
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as NodeLine)
}

const says = (content: string, max_tokens: number) => ({
  ...{ messages: [{ role: 'user', content }], max_tokens, temperature: 0 },
})

function nodes() {
  const { model } = system.dev
  return [
    { id: 'short', model, requests: 'lines', body: says('Count from {{n}} upwards.', 8) },
    { id: 'long', model, requests: 'lines', where: { even: true }, body: says('Say {{n}} in words.', 12) },
    { id: 'notes', model, documents: { field: 'parts' }, body: says('So far: {{previous}} Now: {{chunk}} Go on.', 8) },
    {
      ...{ id: 'judge', model, from: { nodes: ['short', 'notes'], each: 2 } },
      body: says('Which is better: {{short.output}} or {{notes.output}}?', 6),
    },
  ]
}

const LINES = 16
const lines = Array.from({ length: LINES }, (_, n) => ({
  ...{ id: `line-${n}`, n, even: n % 2 === 0 },
  parts: Array.from({ length: 1 + (n % 3) }, (_, part) => `part ${part} of ${n}`),
}))
const CHUNKS = lines.reduce((sum, { parts }) => sum + parts.length, 0)
const CALLS = LINES + LINES / 2 + CHUNKS + 2 * LINES
/** On a machine that does something else, too. */
const TIMEOUT_MS = 400_000

it(
  'kill -9 of an engine, of an agent and of the control plane: every node answers every line once, in order',
  async () => {
    const file = path.join(system.dataDir, 'application.json')
    const input = path.join(system.dataDir, 'lines.jsonl')
    writeFileSync(file, JSON.stringify({ name: 'everything', id: 'everything', nodes: nodes() }))
    writeFileSync(input, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    const create = ['apps', 'create', file, '--input', input]
    const planned = await run(...create, '--plan-only', '--wait', '--json')
    expect(planned.stderr).not.toContain('switchyard:')
    expect(JSON.parse(planned.stdout)).toMatchObject({
      status: 'planned',
      request_counts: { total: CALLS },
    })
    const plan = await run('apps', 'plan', 'everything')
    expect(plan.stdout).toMatch(/judge .*short notes .*32/)
    expect(plan.stdout).toMatch(/us-east: 1 \(\d+ seats\)/)

    const waiting = run(...create, '--wait', '--json')
    const completed = async (): Promise<number> => {
      try {
        const answer = await system.fetch('/v1/applications/everything')
        return ((await answer.json()) as { request_counts: { completed: number } }).request_counts.completed
      } catch {
        // The control plane was killed a moment ago.
        return 0
      }
    }
    await eventually('some calls have run', async () => (await completed()) >= 6 || undefined, TIMEOUT_MS)
    const victim = system.dev.agents[0] as { id: string; pid: number }
    const engine = engineProcess('embedded', victim.pid, '')
    expect(engine).not.toBeNull()
    process.kill(engine ?? 0, 'SIGKILL')
    await eventually('calls run again', async () => (await completed()) >= 16 || undefined, TIMEOUT_MS)
    expect(engineProcess('embedded', victim.pid, '')).not.toBe(engine)
    process.kill(victim.pid, 'SIGKILL')
    await eventually(
      'the agent is back',
      () => system.dev.agents.find(({ id, pid }) => id === victim.id && pid !== victim.pid),
      60_000,
    )
    await eventually('more calls have run', async () => (await completed()) >= 40 || undefined, TIMEOUT_MS)
    const before = await outputOf('everything', 'short')
    process.kill(system.dev.controlPlanePid, 'SIGKILL')
    const made = await waiting
    expect(made.stderr).toMatch(new RegExp(`of ${CALLS} calls`))
    expect(JSON.parse(made.stdout)).toMatchObject({
      status: 'completed',
      request_counts: { total: CALLS, completed: CALLS, failed: 0 },
    })

    const [short, long, notes, judge] = await Promise.all(
      ['short', 'long', 'notes', 'judge'].map((node) => outputOf('everything', node)),
    )
    for (const node of [short, long, notes, judge]) {
      expect(node?.every(({ output, error }) => output !== null && output.length > 0 && error === null)).toBe(true)
    }
    expect(short?.map(({ line }) => line)).toEqual(lines.map((_, at) => at + 1))
    // What could be read before is still what it was.
    const finished = before.map(({ line, output }) => [line, output])
    expect(
      short?.filter(({ line }) => before.some((one) => one.line === line)).map(({ line, output }) => [line, output]),
    ).toEqual(finished)
    expect(long?.map(({ line }) => line)).toEqual(lines.flatMap(({ even }, at) => (even ? [at + 1] : [])))
    expect(notes?.map(({ line, chunk, chunks }) => [line, chunk, chunks])).toEqual(
      lines.flatMap(({ parts }, at) => parts.map((_, part) => [at + 1, part + 1, parts.length])),
    )
    expect(judge?.map(({ line, copy }) => [line, copy])).toEqual(
      lines.flatMap((_, at) => [
        [at + 1, 1],
        [at + 1, 2],
      ]),
    )
    const svg = await (await system.fetch('/v1/applications/everything/gantt.svg')).text()
    expect(svg.startsWith('<svg')).toBe(true)
  },
  TIMEOUT_MS,
)

it('sent again it answers with what there is, and a line at fault is named', async () => {
  const [file, input] = ['application.json', 'lines.jsonl'].map((name) => path.join(system.dataDir, name)) as [
    string,
    string,
  ]
  const again = await run('apps', 'create', file, '--input', input, '--json')
  expect(JSON.parse(again.stdout)).toMatchObject({ status: 'completed', request_counts: { total: CALLS } })
  const lines_at_fault = { lines: [{ n: 1, parts: ['a'] }, { parts: ['a'] }] }
  writeFileSync(file, JSON.stringify({ name: 'faulty', nodes: nodes(), input: lines_at_fault }))
  const faulty = await run('apps', 'create', file, '--wait', '--json')
  expect(JSON.parse(faulty.stdout)).toMatchObject({
    status: 'failed',
    errors: { data: [{ line: 2, message: expect.stringContaining('node short') }] },
  })
})
