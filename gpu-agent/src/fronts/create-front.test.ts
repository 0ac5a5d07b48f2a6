import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ClassSketch } from '../../../src/core/classes/class-sketch.ts'
import type { ClassData } from '../../../src/protocol/index.ts'
import { describeWithModel, MODEL_PATH } from '../../engine/backends/llama/testing/real-model.ts'
import type { LedgerRow } from '../../engine/types.ts'
import { KnownClasses } from '../classes/known-classes.ts'
import { ChildFront } from './child/child-front.ts'
import { forkChild } from './child/child-link.ts'
import { createFront } from './create-front.ts'
import type { EngineFront } from './engine-front.ts'
import type { FrontOptions } from './front-options.ts'
import { dispatched, user } from './testing/dispatched.ts'
import { innerChild } from './testing/inner-child.ts'
import { RecordingSink } from './testing/recording-sink.ts'

const quiet = { ledger: () => undefined, status: () => undefined, epoch: () => undefined }

function serve(front: EngineFront, body: Record<string, unknown>): { sink: RecordingSink; lease: string } {
  const sink = new RecordingSink()
  const call = dispatched(front.describe().epoch, body)
  front.serve(call, sink)
  return { sink, lease: call.claims.lease }
}

function learnedOf(name: string, output_tokens: number): ClassData {
  const sketch = new ClassSketch()
  for (let end = 0; end < 200; end++) {
    sketch.add({ output_tokens, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 })
  }
  return { tenant: 'tenant', class: name, sketch: sketch.data() }
}

/** Of a call of each class that wait for the one seat, the long class's program opened first. */
async function endedFirst(front: EngineFront): Promise<string | undefined> {
  const { epoch } = front.describe()
  const ended: string[] = []
  const send = async (name: string, opened_ms: number): Promise<void> => {
    const sink = new RecordingSink()
    const claims = { class: name, program: name, run: name, sequence: [opened_ms, 0] as const }
    front.serve(dispatched(epoch, { messages: user(name), max_tokens: 8 }, claims), sink)
    await sink.over
    ended.push(name)
  }
  await Promise.all([send('app:long', 1), send('app:short', 2)])
  await front.stop()
  return ended[0]
}

describe('createFront, emulated', () => {
  const emulated: FrontOptions = { engine: 'emulated', id: 'e0', model_id: 'm', profile: 'tiny', policy: 'plas' }

  test('serves, reuses prefixes and says in every chunk that it is emulated', async () => {
    const front = await createFront(emulated, quiet)
    expect(front.describe()).toMatchObject({ kind: 'emulated', model: 'm', seats: 4, context_tokens_max: 4096 })
    const first = serve(front, { messages: user('Hello there, engine'), max_tokens: 24 })
    await first.sink.over
    expect(first.sink.end).toMatchObject({ finish_reason: 'length', measurement: { output_tokens: 24 } })
    const history = [...user('Hello there, engine'), { role: 'assistant', content: first.sink.text }, ...user('Go on')]
    const second = serve(front, { messages: history, max_tokens: 4 })
    await second.sink.over
    const held = (first.sink.prompt_tokens ?? 0) + 24 - 1
    expect(second.sink.end?.measurement.cached_tokens).toBe(held)
    for (const chunk of [...first.sink.chunks, ...(first.sink.end?.last_chunks ?? [])]) {
      expect(chunk).toMatchObject({ system_fingerprint: 'switchyard-emulated-tiny' })
    }
    await front.stop()
  })

  test('equal prompts get equal answers, which end by themselves when there is room', async () => {
    const front = await createFront(emulated, quiet)
    const [one, two] = [
      serve(front, { messages: user('Tell me'), temperature: 0 }),
      serve(front, { messages: user('Tell me'), temperature: 0 }),
    ]
    await Promise.all([one.sink.over, two.sink.over])
    expect(one.sink.end).toMatchObject({ finish_reason: 'stop' })
    expect(one.sink.text).toBe(two.sink.text)
    await front.stop()
  })

  test('a policy that learns orders by what is known of classes, in this process and in a child', async () => {
    const known = new KnownClasses([learnedOf('app:long', 5000), learnedOf('app:short', 5)])
    const options: FrontOptions = { ...emulated, policy: 'learned', seats: 1 }
    const report = (message: string): never => expect.fail(message)
    const child = { front: options, report, fork: innerChild }
    const starting = [
      (classes: KnownClasses) => createFront(options, quiet, classes),
      (classes: KnownClasses) => ChildFront.start({ ...child, classes: () => classes.all() }, quiet),
    ]
    for (const start of starting) {
      expect(await endedFirst(await start(known))).toBe('app:short')
      expect(await endedFirst(await start(new KnownClasses()))).toBe('app:long')
    }
  })

  test('a policy that learns tells of each call what it knew when the call came, and one with levels its level', async () => {
    const known = new KnownClasses([learnedOf('class', 5000)])
    const measured = async (policy: FrontOptions['policy']) => {
      const front = await createFront({ ...emulated, policy }, quiet, known)
      const { sink } = serve(front, { messages: user('Hi'), max_tokens: 4, n: 2 })
      await sink.over
      await front.stop()
      return sink.end?.measurement
    }
    const { rank, expected_remaining_tokens } = (await measured('learned')) ?? {}
    expect(rank).toEqual(expect.any(Number))
    expect(expected_remaining_tokens).toBeGreaterThan(4000)
    const levelled = await measured('plas')
    expect([levelled?.rank, levelled?.expected_remaining_tokens]).toEqual([0, undefined])
    expect(await measured('fcfs')).not.toHaveProperty('rank')
  })

  test('an unknown profile is an error', async () => {
    await expect(createFront({ ...emulated, profile: 'huge' }, quiet)).rejects.toThrow('no profile huge')
  })
})

test('an embedded engine without its model cannot start', async () => {
  const embedded: FrontOptions = { engine: 'embedded', id: 'e0', model_id: 'm', policy: 'plas' }
  const report = () => undefined
  await expect(createFront(embedded, quiet, undefined, report)).rejects.toThrow('needs a model file')
  await expect(
    createFront({ ...embedded, model_path: '/nonexistent.gguf' }, quiet, undefined, report),
  ).rejects.toThrow()
})

/** Its header promises more entries than any file has, and the loader reads on for them. */
function damagedModel(): string {
  const header = Buffer.alloc(4096)
  header.write('GGUF')
  header.writeUInt32LE(3, 4)
  header.writeBigUInt64LE(2n ** 40n, 8)
  header.writeBigUInt64LE(2n ** 40n, 16)
  const file = join(mkdtempSync(join(tmpdir(), 'switchyard-damaged-')), 'damaged.gguf')
  writeFileSync(file, header)
  onTestFinished(() => rmSync(dirname(file), { recursive: true }))
  return file
}

test('a model file that the loader never ends reading fails the start in time, and its child is gone', async () => {
  let pid = 0
  const starting = ChildFront.start(
    {
      front: { engine: 'embedded', id: 'e0', model_id: 'm', policy: 'plas', model_path: damagedModel() },
      report: () => undefined,
      start_ms_max: 3000,
      fork: (listener) => {
        const child = forkChild(listener)
        pid = child.pid ?? 0
        return child
      },
    },
    quiet,
  )
  await expect(starting).rejects.toThrow('ended before it was ready')
  expect(isAlive(pid)).toBe(false)
})

describeWithModel('the embedded engine in a child process', () => {
  const front_options: FrontOptions = {
    engine: 'embedded',
    id: 'e0',
    model_id: 'm',
    model_path: MODEL_PATH,
    policy: 'plas',
    seats: 2,
    slots: 3,
    context_tokens: 512,
  }

  test('orders by what the agent knows of classes when the child starts', async () => {
    const known = new KnownClasses([learnedOf('app:long', 5000), learnedOf('app:short', 5)])
    const options: FrontOptions = { ...front_options, policy: 'learned', seats: 1 }
    expect(await endedFirst(await createFront(options, quiet, known))).toBe('app:short')
    expect(await endedFirst(await createFront(options, quiet))).toBe('app:long')
  })

  test('serves a program of two turns; cached tokens and ledger add up; a killed child is replaced', async () => {
    const rows: LedgerRow[] = []
    const epochs: string[] = []
    let pid = 0
    const front = await ChildFront.start(
      {
        front: front_options,
        report: () => undefined,
        restart_pause: { min_ms: 1, max_ms: 2 },
        fork: (listener) => {
          const child = forkChild(listener)
          pid = child.pid ?? 0
          return child
        },
      },
      { ...quiet, ledger: (more) => rows.push(...more), epoch: () => epochs.push(front.describe().epoch) },
    )
    expect(front.describe()).toMatchObject({ kind: 'embedded', seats: 2, context_tokens_max: 511 })
    const question = user('Answer with one word: what colour is the sky?')
    const first = serve(front, { messages: question, temperature: 0 })
    await first.sink.over
    expect(first.sink.text).toContain('blue')
    const history = [...question, { role: 'assistant', content: first.sink.text }, ...user('And the sea?')]
    const second = serve(front, { messages: history, temperature: 0 })
    await second.sink.over
    const { measurement } = second.sink.end ?? expect.fail('no end')
    const computed = rows
      .filter(({ lease }) => lease === second.lease)
      .reduce((sum, row) => sum + row.computed_tokens, 0)
    expect(measurement.cached_tokens).toBeGreaterThan(first.sink.prompt_tokens ?? Number.POSITIVE_INFINITY)
    expect(computed).toBe(measurement.prompt_tokens - measurement.cached_tokens + measurement.output_tokens)

    const open = serve(front, { messages: user('Write a long story.'), max_tokens: 300 })
    open.sink.onChunk = () => {
      if (open.sink.chunks.length === 5) process.kill(pid, 'SIGKILL')
    }
    await open.sink.over
    expect(open.sink.end).toMatchObject({ outcome: 'failed', error: { error: { code: 'engine_failed' } } })
    const charged = rows.filter(({ lease }) => lease === open.lease).reduce((sum, row) => sum + row.wall_us, 0)
    expect(charged).toBeGreaterThan(0)
    expect(open.sink.end?.measurement.service_wall_us).toBe(charged)
    await expect.poll(() => epochs.length).toBe(1)
    const again = serve(front, { messages: question, temperature: 0 })
    await again.sink.over
    expect(again.sink.text).toBe(first.sink.text)
    await front.drain()
    await front.stop()
    await expect.poll(() => isAlive(pid)).toBe(false)
  })

  test('the child ends when its parent is killed', async () => {
    const script = fileURLToPath(new URL('./testing/orphan-parent.ts', import.meta.url))
    const parent = spawn(process.execPath, [script, MODEL_PATH], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(line.toString().trim())
    expect(isAlive(pid)).toBe(true)
    parent.kill('SIGKILL')
    await expect.poll(() => isAlive(pid)).toBe(false)
  })
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    // ESRCH: there is no such process.
    return false
  }
}
