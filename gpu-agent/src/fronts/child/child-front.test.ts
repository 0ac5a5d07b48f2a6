import { beforeEach, describe, expect, test, vi } from 'vitest'
import { ClassSketch } from '../../../../src/core/classes/class-sketch.ts'
import type { ClassData } from '../../../../src/protocol/index.ts'
import type { LedgerRow } from '../../../engine/types.ts'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { CHILD_CALLS_MAX, CHILD_SILENCE_MS_MAX, ChildFront, START_MS_MAX, STOP_MS_MAX } from './child-front.ts'
import type { ChildListener } from './child-link.ts'
import { type ChildEvent, CLASSES_PER_MESSAGE_MAX, type FrontStatus, type ParentMessage } from './child-protocol.ts'

const description = (epoch: string) => ({
  id: 'e0',
  epoch,
  kind: 'embedded' as const,
  model: 'm',
  seats: 4,
  kv_capacity_tokens: 100,
  context_tokens_max: 64,
  prefill_tokens_per_s: null,
  speed_factor: 1,
})
const status = (epoch: string): FrontStatus => ({
  id: 'e0',
  epoch,
  state: 'ready',
  waiting: 0,
  running: 0,
  queued_tokens: 0,
  kv_used_tokens: 0,
  bytes_per_token: null,
})

/** A child in this process, which does what the test says. */
class FakeChild {
  readonly sent: ParentMessage[] = []
  killed = false
  full = false
  readonly listener: ChildListener
  readonly pid = undefined

  constructor(listener: ChildListener) {
    this.listener = listener
  }
  send(message: ParentMessage): void {
    this.sent.push(message)
  }
  offer(message: ParentMessage): boolean {
    if (this.full) return false
    this.send(message)
    return true
  }
  kill(): void {
    this.killed = true
    this.listener.gone('SIGKILL')
  }
  emit(...events: ChildEvent[]): void {
    this.listener.events(events)
  }
  ready(epoch: string): void {
    this.emit({
      type: 'ready',
      description: description(epoch),
      status: status(epoch),
      hints: ['chat_template_kwargs'],
    })
  }
}

let children: FakeChild[] = []
let heard: string[] = []
let rows: LedgerRow[] = []
let now_us = 0

const current = (): FakeChild => children.at(-1) ?? expect.fail('no child')

async function start(classes: readonly ClassData[] = []): Promise<ChildFront> {
  const starting = ChildFront.start(
    {
      classes: () => classes,
      front: { engine: 'embedded', id: 'e0', model_id: 'm', policy: 'plas' },
      report: () => undefined,
      fork: (listener) => {
        const child = new FakeChild(listener)
        children.push(child)
        return child
      },
      clock: () => now_us,
      random: () => 0,
      restart_pause: { min_ms: 2, max_ms: 4 },
    },
    { ledger: (more) => rows.push(...more), status: () => heard.push('status'), epoch: () => heard.push('epoch') },
  )
  current().ready('epoch-1')
  return starting
}

const row = (lease: string, wall_us: number, sampled_tokens: number): LedgerRow => ({
  epoch: 'epoch-1',
  step: 1,
  lease,
  wall_us,
  modelled_us: wall_us / 2,
  computed_tokens: 5,
  sampled_tokens,
})

beforeEach(() => {
  children = []
  heard = []
  rows = []
  now_us = 1_000_000
})

describe('ChildFront', () => {
  function serve(front: ChildFront, epoch = 'epoch-1'): { sink: RecordingSink; lease: string } {
    const sink = new RecordingSink()
    const call = dispatched(epoch, { messages: user('Hi') })
    front.serve(call, sink)
    return { sink, lease: call.claims.lease }
  }

  test('passes a call down and its life up', async () => {
    const front = await start()
    expect(current().sent[0]).toMatchObject({ type: 'start', options: { id: 'e0' } })
    expect([...front.hints]).toEqual(['chat_template_kwargs'])
    const { sink, lease } = serve(front)
    expect(front.status().waiting).toBe(1)
    const measurement = { prompt_tokens: 3 } as never
    const end = {
      outcome: 'completed' as const,
      finish_reason: 'stop' as const,
      error: null,
      measurement,
      last_chunks: [],
    }
    current().emit({ type: 'accepted', lease, prompt_tokens: 3 }, { type: 'status', status: status('epoch-1') })
    expect(front.status().waiting).toBe(0)
    current().emit({ type: 'ledger', rows: [row(lease, 100, 1)] }, { type: 'chunk', lease, chunk: { choices: [] } })
    current().emit({ type: 'ended', lease, end })
    expect(sink.end).toEqual(end)
    expect(rows).toHaveLength(1)
    // What comes after the end has no addressee.
    current().emit({ type: 'chunk', lease, chunk: {} })
    expect(sink.chunks).toHaveLength(1)
  })

  test('a child that dies fails accepted calls with what the ledger says, and refuses the others', async () => {
    const front = await start()
    const accepted = serve(front)
    const pending = serve(front)
    current().emit({ type: 'accepted', lease: accepted.lease, prompt_tokens: 3 })
    now_us += 500
    current().emit({ type: 'ledger', rows: [row(accepted.lease, 300, 0), row(accepted.lease, 100, 1)] })
    now_us += 500
    current().listener.gone('SIGSEGV')
    expect(accepted.sink.end).toMatchObject({
      outcome: 'failed',
      error: { retryable: true, error: { code: 'engine_failed' } },
      measurement: {
        prompt_tokens: 3,
        output_tokens: 1,
        service_wall_us: 400,
        service_modelled_us: 200,
        wait_us: 600,
        first_token_us: 500,
        duration_us: 1000,
      },
    })
    expect(pending.sink.error).toMatchObject({ retryable: true, error: { code: 'engine_down' } })
    expect(front.status()).toMatchObject({ state: 'down', waiting: 0, running: 0 })
    expect(serve(front).sink.error).toMatchObject({ error: { code: 'engine_down' } })
    await front.stop()
  })

  test('another child starts, and its epoch is told', async () => {
    const front = await start()
    current().listener.gone('SIGSEGV')
    heard = []
    await expect.poll(() => children.length).toBe(2)
    // It dies before it is ready: a third comes.
    current().emit({ type: 'failed', message: 'no memory' })
    current().listener.gone('exit code 1')
    await expect.poll(() => children.length).toBe(3)
    expect(heard).not.toContain('epoch')
    current().ready('epoch-2')
    expect(heard).toContain('epoch')
    expect(front.describe().epoch).toBe('epoch-2')
    expect(serve(front, 'epoch-1').sink.error).toMatchObject({ error: { code: 'epoch_gone' } })
    expect(serve(front, 'epoch-2').sink.error).toBeNull()
  })

  test('each child is told what is known of classes, some at a time, and then what is new', async () => {
    const classes = Array.from({ length: CLASSES_PER_MESSAGE_MAX + 1 }, (_, at): ClassData => {
      return { tenant: 'a', class: `${at}`, sketch: new ClassSketch().data() }
    })
    const told = () =>
      current().sent.flatMap((message) => (message.type === 'classes' ? [message.classes.map((one) => one.class)] : []))
    const all = [classes.slice(0, CLASSES_PER_MESSAGE_MAX), classes.slice(CLASSES_PER_MESSAGE_MAX)]
    const names = all.map((some) => some.map((one) => one.class))
    const front = await start(classes)
    expect(told()).toEqual(names)
    front.classes(classes.slice(0, 1))
    expect(told()).toEqual([...names, ['0']])
    current().listener.gone('SIGSEGV')
    await expect.poll(() => children.length).toBe(2)
    expect(told()).toEqual(names)
  })

  test("the child's own restart of its engine is told too", async () => {
    const front = await start()
    heard = []
    current().emit({ type: 'epoch', description: description('epoch-2'), status: status('epoch-2') })
    expect(heard).toEqual(['epoch', 'status'])
    expect(front.describe().epoch).toBe('epoch-2')
  })

  test('a first child that cannot start rejects and is not replaced', async () => {
    const starting = start()
    children = []
    await starting
    const failing = ChildFront.start(
      {
        front: { engine: 'embedded', id: 'e0', model_id: 'm', policy: 'plas' },
        report: () => undefined,
        fork: (listener) => {
          const child = new FakeChild(listener)
          children.push(child)
          return child
        },
      },
      { ledger: () => undefined, status: () => undefined, epoch: () => undefined },
    )
    current().emit({ type: 'failed', message: 'no model' })
    current().listener.gone('exit code 1')
    await expect(failing).rejects.toThrow('no model')
    expect(children).toHaveLength(1)
  })

  test('takes CHILD_CALLS_MAX calls and not one more, and none that the channel cannot take', async () => {
    const front = await start()
    current().full = true
    expect(serve(front).sink.error).toMatchObject({ status: 429, retry_after_s: 1, error: { code: 'engine_full' } })
    current().full = false
    for (let index = 0; index < CHILD_CALLS_MAX; index++) serve(front)
    expect(front.status().waiting).toBe(CHILD_CALLS_MAX)
    expect(serve(front).sink.error).toMatchObject({ status: 429, retry_after_s: 1, error: { code: 'engine_full' } })
  })

  test('cancel reaches the child for open calls only', async () => {
    const front = await start()
    const { lease } = serve(front)
    front.cancel('unknown', null)
    front.cancel(lease, null)
    expect(current().sent.filter(({ type }) => type === 'cancel')).toEqual([{ type: 'cancel', lease, error: null }])
  })

  test('drain and stop wait for the child; a drained engine is not replaced', async () => {
    const front = await start()
    const drained = front.drain()
    expect(front.status().state).toBe('draining')
    expect(serve(front).sink.error).toMatchObject({ error: { code: 'draining' } })
    current().emit({ type: 'drained' })
    await drained
    const stopped = front.stop()
    expect(current().sent.map(({ type }) => type)).toEqual(['start', 'drain', 'stop'])
    current().listener.gone('exit code 0')
    await stopped
    expect(children).toHaveLength(1)
  })

  test('a child that does not stop in STOP_MS_MAX is killed', async () => {
    vi.useFakeTimers()
    try {
      const front = await start()
      const stopped = front.stop()
      await vi.advanceTimersByTimeAsync(STOP_MS_MAX - 1)
      expect(current().killed).toBe(false)
      await vi.advanceTimersByTimeAsync(1)
      expect(current().killed).toBe(true)
      await stopped
    } finally {
      vi.useRealTimers()
    }
  })

  test('a child that is not ready in START_MS_MAX is killed, and the start fails; one that is ready is left alone', async () => {
    vi.useFakeTimers()
    try {
      const fork = (listener: ChildListener) => {
        const child = new FakeChild(listener)
        children.push(child)
        return child
      }
      const front = { engine: 'embedded', id: 'e0', model_id: 'm', policy: 'plas' } as const
      const options = { front, report: (message: string) => heard.push(message), fork }
      const failed = ChildFront.start(options, { ledger() {}, status() {}, epoch() {} }).catch(String)
      await vi.advanceTimersByTimeAsync(START_MS_MAX - 1)
      expect(current().killed).toBe(false)
      await vi.advanceTimersByTimeAsync(1)
      expect(current().killed).toBe(true)
      expect(await failed).toContain('ended before it was ready')
      expect(heard).toEqual([`the engine was not ready within ${START_MS_MAX} ms`])
      await start()
      await vi.advanceTimersByTimeAsync(START_MS_MAX)
      expect(current().killed).toBe(false)
    } finally {
      vi.useRealTimers()
    }
  })

  test('a child that is silent with a call open is killed', async () => {
    vi.useFakeTimers()
    try {
      const front = await start()
      await vi.advanceTimersByTimeAsync(10_000)
      now_us += CHILD_SILENCE_MS_MAX * 2000
      await vi.advanceTimersByTimeAsync(10_000)
      expect(current().killed).toBe(false)
      const { sink } = serve(front)
      now_us += CHILD_SILENCE_MS_MAX * 1000 - 1
      await vi.advanceTimersByTimeAsync(10_000)
      expect(current().killed).toBe(false)
      now_us += 1
      await vi.advanceTimersByTimeAsync(5_000)
      expect(children[0]?.killed).toBe(true)
      expect(sink.error).toMatchObject({ error: { code: 'engine_down' } })
    } finally {
      vi.useRealTimers()
    }
  })
})
