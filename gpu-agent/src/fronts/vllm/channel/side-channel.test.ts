import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../testing/harness.ts'
import { ScriptedVllm } from '../testing/scripted-vllm.ts'
import { AckTracker } from './ack-tracker.ts'
import { CHARGES_MAX, readMessage } from './channel-messages.ts'
import { LINE_BYTES_MAX, LINES_PER_TURN, SideChannel, type SideChannelListener } from './side-channel.ts'

type Heard = { what: string; value?: unknown }

async function connected(options: { options_answer_ms_max?: number; positions_answer_ms_max?: number } = {}) {
  const vllm = await new ScriptedVllm().listen()
  const heard: Heard[] = []
  const listener: SideChannelListener = {
    hello: (value) => heard.push({ what: 'hello', value }),
    record: (value) => heard.push({ what: 'record', value: value.number }),
    charges: (value) => heard.push({ what: 'charges', value: value.leases }),
    status: (value) => heard.push({ what: 'status', value }),
    lost: (value, failures) => heard.push({ what: 'lost', value }, { what: 'failures', value: failures }),
    incompatible: (value) => heard.push({ what: 'incompatible', value }),
    ignored: (value) => heard.push({ what: 'ignored', value }),
  }
  const pause = { min_ms: 5, max_ms: 10 }
  const channel = new SideChannel({ path: vllm.path, listener, pause, random: () => 0, ...options })
  onTestFinished(() => channel.close())
  channel.start()
  const of = (what: string): unknown[] => heard.filter((one) => one.what === what).map(({ value }) => value)
  await until(() => of('hello').length === 1)
  return { vllm, channel, of }
}

test('records are acknowledged up to the first that is not safe, and once more by who connects again', async () => {
  const { vllm, channel, of } = await connected()
  for (const lease of ['a', 'b', 'c']) vllm.record(lease)
  await until(() => of('record').length === 3)
  channel.settle('engine-1', 3)
  channel.settle('engine-1', 1)
  await until(() => vllm.kept.length === 2)
  vllm.dropAgent()
  await until(() => of('hello').length === 2)
  // 2 and 3 are sent again, and are known.
  await until(() => of('ignored').filter((what) => what === 'repeated').length === 2)
  expect(of('record')).toEqual([1, 2, 3])
  channel.settle('engine-1', 2)
  await until(() => vllm.kept.length === 0)
})

test('numbers of another process count from one again, and old settlements mean nothing to it', async () => {
  const { vllm, channel, of } = await connected()
  vllm.record('a')
  vllm.record('b')
  await until(() => of('record').length === 2)
  vllm.restart('engine-2')
  await until(() => of('hello').length === 2)
  vllm.record('c')
  await until(() => of('record').length === 3)
  channel.settle('engine-1', 1)
  channel.settle('engine-2', 1)
  await until(() => vllm.kept.length === 0)
  expect(of('record')).toEqual([1, 2, 1])
})

test('what is unknown or cannot be read is ignored, and does not hold up the acknowledgement of others', async () => {
  const { vllm, channel, of } = await connected()
  vllm.say({ type: 'weather', sunny: true })
  vllm.say('not json\n')
  vllm.record('a', { prompt_tokens: -1 })
  const number = vllm.record('b')
  await until(() => of('record').length === 1)
  expect(of('ignored')).toEqual(['unknown', 'malformed', 'malformed'])
  channel.settle('engine-1', number)
  await until(() => vllm.kept.length === 0)
})

test('a line may have its bound, and one byte more ends the connection, which is made again', async () => {
  const { vllm, of } = await connected()
  const line = (bytes: number): string => {
    const empty = JSON.stringify({ type: 'status', fill: '' })
    return `${JSON.stringify({ type: 'status', fill: 'x'.repeat(bytes - empty.length) })}\n`
  }
  vllm.say(line(LINE_BYTES_MAX))
  await until(() => of('status').length === 1)
  expect(of('lost')).toEqual([])
  vllm.say(line(LINE_BYTES_MAX + 1))
  await until(() => of('hello').length === 2)
  expect(of('lost')[0]).toContain('in one line')
  expect(of('status')).toHaveLength(1)
})

test('a connection that is taken away again and again is not restored by each hello', async () => {
  const { vllm, of } = await connected()
  for (let hellos = 1; hellos < 4; hellos += 1) {
    await until(() => of('hello').length === hellos)
    vllm.dropAgent()
  }
  await until(() => of('failures').length === 3)
  expect(of('failures')).toEqual([1, 2, 3])
})

test('a line that never ends does not fill the memory', async () => {
  const { vllm, of } = await connected()
  vllm.say('x'.repeat(LINE_BYTES_MAX + 2))
  await until(() => of('hello').length === 2)
})

test('a burst is read in turns, and other work goes on between them', async () => {
  const { vllm, of } = await connected()
  const lines = LINES_PER_TURN * 3
  const seen = new Set<number>()
  vllm.say(`${JSON.stringify({ type: 'status' })}\n`.repeat(lines))
  while (of('status').length < lines) {
    await new Promise((resolve) => setImmediate(resolve))
    seen.add(of('status').length)
  }
  expect(seen).toContain(LINES_PER_TURN)
})

test('a change of options that is never answered ends with a reason', async () => {
  const { channel } = await connected({ options_answer_ms_max: 20 })
  expect(await channel.changeOptions({})).toEqual({ status: 'unanswered', reason: 'no answer within 20 ms' })
})

test('the engine says where leases are in its order, and nothing is known where it says nothing', async () => {
  const { vllm, channel } = await connected({ positions_answer_ms_max: 200 })
  const asked = channel.positions(['l'])
  await until(() => vllm.heard.some(({ type }) => type === 'positions'))
  const question = vllm.heard.find(({ type }) => type === 'positions')
  expect(question).toMatchObject({ leases: ['l'] })
  vllm.say({ type: 'positions', number: question?.number, positions: [['l', true, 5, 1, 'in order of arrival']] })
  expect(await asked).toEqual([{ lease: 'l', waits: true, waited_us: 5, before: 1, order: 'in order of arrival' }])
  expect(await channel.positions(['l'])).toEqual([])
  const lost = channel.positions(['l'])
  vllm.dropAgent()
  expect(await lost).toEqual([])
})

test('charges of as many leases as a message may have are read, and one more is not', () => {
  const charges = (count: number) =>
    JSON.stringify({ type: 'charges', leases: Array.from({ length: count }, () => ['l', 1, 2, 3, 4]) })
  expect(readMessage(charges(CHARGES_MAX)).kind).toBe('message')
  expect(readMessage(charges(CHARGES_MAX + 1))).toMatchObject({ kind: 'ignored', what: 'malformed' })
})

test('property: safe is the greatest number up to which all are settled, in any order', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
      fc.infiniteStream(fc.nat()),
      (numbers, random) => {
        const tracker = new AckTracker()
        const taken = [...numbers].sort((a, b) => a - b)
        for (const number of taken) expect(tracker.take(number)).toBe(true)
        for (const number of taken) expect(tracker.take(number)).toBe(false)
        const settled = new Set<number>()
        const left = [...taken]
        while (left.length > 0) {
          const [number] = left.splice((random.next().value as number) % left.length, 1)
          tracker.settle(number as number)
          settled.add(number as number)
          const first_open = taken.findIndex((one) => !settled.has(one))
          const safe = first_open === -1 ? taken.at(-1) : taken[first_open - 1]
          expect(tracker.safe).toBe(safe ?? 0)
        }
      },
    ),
  )
})
