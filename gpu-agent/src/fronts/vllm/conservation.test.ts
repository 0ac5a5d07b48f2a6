import fc from 'fast-check'
import { expect, test } from 'vitest'
import { until } from '../../testing/harness.ts'
import { VllmWorld } from './testing/vllm-world.ts'

type Step =
  | { do: 'open'; choices: number }
  | { do: 'charge'; of: number; us: number }
  | { do: 'answer' | 'text' | 'finish' | 'cut' | 'record' | 'cancel'; of: number }
  | { do: 'pause' | 'drop_channel' | 'restart_engine' | 'crash' }

const of = fc.nat({ max: 5 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('open' as const), choices: fc.integer({ min: 1, max: 2 }) }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('charge' as const), of, us: fc.integer({ min: 0, max: 9999 }) }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'answer' as const,
        'answer' as const,
        'text' as const,
        'finish' as const,
        'cut' as const,
        'record' as const,
        'cancel' as const,
      ),
      of,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('pause' as const, 'drop_channel' as const, 'restart_engine' as const, 'crash' as const),
    }),
  },
)

async function take(world: VllmWorld, leases: string[], step: Step): Promise<void> {
  if (step.do === 'open') {
    leases.push(await world.open(step.choices))
    return
  }
  if (!('of' in step)) {
    if (step.do === 'pause') await new Promise((resolve) => setTimeout(resolve, 3))
    else if (step.do === 'drop_channel') world.vllm.dropAgent()
    else if (step.do === 'crash') await world.crash()
    else await world.restartEngine()
    return
  }
  const lease = leases[step.of % Math.max(1, leases.length)]
  if (lease === undefined) return
  if (step.do === 'charge') world.charge(lease, step.us)
  else if (step.do === 'record') world.record(lease)
  else if (step.do === 'cancel') world.cancel(lease)
  else answer(world, lease, step.do)
}

function answer(world: VllmWorld, lease: string, what: 'answer' | 'text' | 'finish' | 'cut'): void {
  const request = world.vllm.requests.find((one) => one.lease === lease)
  if (request === undefined || request.response.writableEnded || request.closed) return
  if (what === 'cut') request.cut()
  else if (!request.response.headersSent) request.accept().role()
  else if (what === 'text') request.text('a')
  else if (what === 'finish') {
    const { choices = 1 } = world.truth.get(lease) ?? {}
    for (let choice = 0; choice < choices; choice += 1) request.text('', 'stop', choice)
    request.usage(7, 3).done()
  }
}

test('property: for all events in all orders, each lease has one record, and it is its ledger', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const world = await VllmWorld.start()
      const leases: string[] = []
      for (const one of steps) await take(world, leases, one)
      // What still runs is aborted, as vLLM does when connections close, and each engine call leaves its record.
      for (const lease of leases) {
        world.cancel(lease)
        world.record(lease)
      }
      await until(() => world.records().length >= leases.length)
      const records = world.records()
      expect(records.map(({ lease }) => lease).sort()).toEqual([...leases].sort())
      for (const { lease, service_wall_us, service_modelled_us, output_tokens } of records) {
        expect({ wall_us: service_wall_us, modelled_us: service_modelled_us }).toEqual(world.ledger(lease))
        expect(output_tokens).toBeGreaterThanOrEqual(0)
      }
      expect(world.events.filter(({ event }) => event === 'ledger_mismatch' || event === 'front_misbehaved')).toEqual(
        [],
      )
      await world.end()
    }),
    { numRuns: 40 },
  )
})

/** For a busy machine: what is waited for comes. */
const PATIENT = { record_wait_ms: 30_000, lost_wait_ms: 30_000, lost_quiet_ms: 300 }

test('an agent that was killed is followed by one that takes the records of its calls, once, and acknowledges them', async () => {
  const world = await VllmWorld.start(PATIENT)
  const { vllm } = world
  const [streaming, pending, ended] = [await world.open(1), await world.open(2), await world.open(1)]
  await until(() => vllm.requests.length === 3)
  vllm.requests[0]?.accept().role()
  world.charge(streaming, 1000)
  world.charge(ended, 400)
  world.record(ended)
  vllm.requests[2]?.accept().role().text('a', 'stop').usage(7, 1).done()
  await until(() => world.records().length === 1)
  await world.crash()
  await until(() => vllm.requests.every(({ closed }) => closed))
  // What vLLM did until it saw that the connections had closed.
  world.charge(streaming, 500)
  world.record(streaming)
  world.charge(pending, 70)
  world.record(pending)
  vllm.record('of-another-agent')
  await until(() => world.records().length === 3 && vllm.kept.length === 0)
  const records = new Map(world.records().map((record) => [record.lease, record]))
  expect(records.get(ended)).toMatchObject({ outcome: 'completed', service_wall_us: 400 })
  expect(records.get(streaming)).toMatchObject({
    outcome: 'failed',
    error_code: 'agent_restarted',
    service_wall_us: 1500,
  })
  expect(records.get(streaming)).toMatchObject({ wait_us: 500, first_token_us: 1500, output_tokens: 2 })
  expect(records.get(pending)).toMatchObject({ outcome: 'failed', service_wall_us: 70, prompt_tokens: 7 })
  for (const lease of [streaming, pending, ended]) {
    const { service_wall_us: wall_us, service_modelled_us: modelled_us } = records.get(lease) ?? expect.fail(lease)
    expect(world.ledger(lease)).toEqual({ wall_us, modelled_us })
  }
  expect(world.counted).toContain('record_foreign')
  // A third agent finds nothing left to do.
  await world.crash()
  expect(world.records()).toHaveLength(3)
})

test('an agent that ends in order before lost calls were told of ends them with what has come', async () => {
  const world = await VllmWorld.start(PATIENT)
  const [told, untold] = [await world.open(1), await world.open(1)]
  await until(() => world.vllm.requests.length === 2)
  for (const request of world.vllm.requests) request.accept().role()
  world.charge(told, 1000)
  world.charge(untold, 300)
  await until(() => world.ledger(told).wall_us === 1000 && world.ledger(untold).wall_us === 300)
  await world.crash()
  world.charge(told, 500)
  world.record(told)
  await until(() => world.ledger(told).wall_us === 1500)
  await world.end()
  await world.boot()
  const services = world.records().map(({ lease, service_wall_us }) => [lease, service_wall_us])
  expect(new Map(services as [string, number][])).toEqual(
    new Map([
      [told, 1500],
      [untold, 300],
    ]),
  )
})

test('a vLLM that died with the agent leaves its calls to the ledger', async () => {
  const world = await VllmWorld.start(PATIENT)
  const lease = await world.open(1)
  await until(() => world.vllm.requests.length === 1)
  world.vllm.requests[0]?.accept().role()
  world.charge(lease, 1000)
  await until(() => world.ledger(lease).wall_us === 1000)
  world.vllm.epoch = 'engine-9'
  await world.crash()
  await until(() => world.records().length === 1)
  expect(world.records()[0]).toMatchObject({ lease, outcome: 'failed', service_wall_us: 1000, output_tokens: 1 })
})
