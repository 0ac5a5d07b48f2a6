/** What every front keeps, behind any engine. Each front's contract test runs this suite. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Measurement, UsageExtension } from '../../../src/protocol/index.ts'
import type { LedgerRow } from '../../engine/types.ts'
import { until } from '../testing/harness.ts'
import type { CallEnd, Dialect, EngineFront, EngineFrontEvents } from './engine-front.ts'
import { dispatched, user } from './testing/dispatched.ts'
import { RecordingSink } from './testing/recording-sink.ts'

/** More than any test waits for, and less than every front's context. */
const LONG_TOKENS = 400
const ENDED_BY_OUTSIDE = {
  error: { message: 'the client left', type: 'invalid_request_error', param: null, code: 'client_gone' },
  status: 499,
  retryable: false,
}

interface Served {
  sink: RecordingSink
  lease: string
}

/** `start`: an idle front. Its engine writes as many tokens as a call asks for. */
export function frontContract(name: string, start: (events: EngineFrontEvents) => Promise<EngineFront>): void {
  describe(`${name} keeps the contract of fronts:`, () => {
    let front: EngineFront
    const rows: LedgerRow[] = []

    // Once: an engine with a real model takes seconds to start. The test that drains comes last.
    beforeAll(async () => {
      const ledger = (more: readonly LedgerRow[]): void => void rows.push(...more)
      front = await start({ ledger, status: () => undefined, epoch: () => undefined })
    })
    afterAll(() => front.stop())

    function serve(body: Record<string, unknown>, dialect: Dialect = 'chat'): Served {
      const sink = new RecordingSink()
      const prompt = dialect === 'chat' ? { messages: user('Tell me of the sea') } : { prompt: 'Tell me of the sea' }
      const call = dispatched(front.describe().epoch, { ...prompt, ...body }, { dialect })
      front.serve(call, sink)
      return { sink, lease: call.claims.lease }
    }

    async function streaming(): Promise<Served> {
      const served = serve({ max_tokens: LONG_TOKENS })
      await until(() => served.sink.text !== '')
      return served
    }

    /** The record and the ledger must say the same to the microsecond. */
    function expectConserved({ lease }: Served, { measurement }: CallEnd): void {
      const of_lease = rows.filter((row) => row.lease === lease)
      const sum = (of: (row: LedgerRow) => number): number => of_lease.reduce((total, row) => total + of(row), 0)
      expect(sum((row) => row.wall_us)).toBe(measurement.service_wall_us)
      expect(sum((row) => row.modelled_us)).toBe(measurement.service_modelled_us)
    }

    it('describes itself and its load under one id and epoch, and is idle before and after its calls', async () => {
      const { id, epoch } = front.describe()
      expect(front.status()).toMatchObject({ id, epoch, state: 'ready' })
      // A front in another process tells its load a moment later.
      const open = (): number => front.status().waiting + front.status().running
      await until(() => open() === 0)
      const served = await streaming()
      await until(() => open() === 1)
      front.cancel(served.lease, null)
      await served.sink.over
      await until(() => open() === 0)
    })

    it.each<Dialect>(['chat', 'completions'])(
      'serves a call (%s) and says what it cost before its last chunks',
      async (dialect) => {
        const served = serve({ max_tokens: 5, stream_options: { include_usage: true } }, dialect)
        const end = (await served.sink.over) ?? expect.fail(served.sink.error?.error.message)
        expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'length', error: null })
        expect(served.sink.text).not.toBe('')
        expect(Measurement.parse(end.measurement)).toMatchObject({ output_tokens: 5 })
        expect(end.measurement.first_token_us).toBeLessThanOrEqual(end.measurement.duration_us)
        expectConserved(served, end)
      },
    )

    it('ends with the finish reason, then usage with what was measured, and sends neither before', async () => {
      const { sink } = serve({ max_tokens: 3, stream_options: { include_usage: true } })
      const end = (await sink.over) ?? expect.fail(sink.error?.error.message)
      expect(sink.chunks.every(({ choices, usage }) => usage === null && choices[0]?.finish_reason === null)).toBe(true)
      expect(end.last_chunks).toMatchObject([{ choices: [{ finish_reason: 'length' }] }, { choices: [] }])
      const { usage } = end.last_chunks.at(-1) as { usage: { completion_tokens: number; switchyard: unknown } }
      expect(usage.completion_tokens).toBe(3)
      const said = UsageExtension.parse(usage.switchyard)
      const { first_token_us, duration_us, service_wall_us } = end.measurement
      expect(said.ttft_s).toBe((first_token_us ?? Number.NaN) / 1e6)
      expect(said.tpot_s).toBeCloseTo((duration_us - (first_token_us ?? Number.NaN)) / 2 / 1e6)
      expect(said.service_wall_s).toBe(service_wall_us / 1e6)
    })

    it('says nothing of usage to a client that did not ask', async () => {
      const end = await serve({ max_tokens: 2 }).sink.over
      expect(end?.last_chunks).toHaveLength(1)
    })

    it.each([
      ['a field that no engine has', { max_token: 3 }, 'max_token'],
      ['a value out of range', { temperature: 3 }, 'temperature'],
      ['no prompt', { messages: [] }, 'messages'],
    ])("refuses %s as the client's mistake, by name", async (_, body, param) => {
      const { sink } = serve(body)
      expect(await sink.over).toBeNull()
      expect(sink.error).toMatchObject({ status: 400, retryable: false, error: { param } })
    })

    it('cancels a call with the reason, charges what it got, and serves others on', async () => {
      const [left, stays] = [await streaming(), await streaming()]
      front.cancel(left.lease, ENDED_BY_OUTSIDE)
      front.cancel('a lease that is not there', ENDED_BY_OUTSIDE)
      const end = (await left.sink.over) ?? expect.fail('refused')
      expect(end).toMatchObject({ outcome: 'cancelled', error: ENDED_BY_OUTSIDE, finish_reason: null, last_chunks: [] })
      expectConserved(left, end)
      expect(stays.sink.end).toBeNull()
      front.cancel(stays.lease, null)
      expect(await stays.sink.over).toMatchObject({ outcome: 'cancelled' })
    })

    it('says where an open call is in the order, and nothing of others', async () => {
      const { lease, sink } = await streaming()
      const told = (await front.positions?.([lease, 'a lease that is not there'])) ?? []
      expect(told.every((position) => position.lease === lease && !position.waits && position.before === 0)).toBe(true)
      expect(told.length).toBe(1)
      front.cancel(lease, null)
      await sink.over
    })

    it('drains: calls under way end, others are refused for another engine to serve', async () => {
      const under_way = serve({ max_tokens: 20 })
      await until(() => under_way.sink.prompt_tokens !== null)
      const drained = front.drain()
      const late = serve({ max_tokens: 2 })
      expect(await late.sink.over).toBeNull()
      expect(late.sink.error).toMatchObject({ retryable: true })
      await drained
      expect(under_way.sink.end).toMatchObject({ outcome: 'completed', measurement: { output_tokens: 20 } })
    })
  })
}
