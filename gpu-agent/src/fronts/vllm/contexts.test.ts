/** What is said between the agent and the plug-in of contexts of programs whose tools run. */
import { expect, test } from 'vitest'
import { until } from '../../testing/harness.ts'
import { arrived, scriptedVllm, startFront } from './testing/start-vllm-front.ts'

const PROGRAM = { tenant: 'tenant', program: 'p', run: 'run' }

test('what was decided for a context comes with the record, of a lease with two choices once', async () => {
  const vllm = await scriptedVllm()
  const under = await startFront(vllm)
  const handled = { handling: 'swap', reason: 'least_waste', waste: { preserve: 5, discard: 4, swap: 3 } }
  const { sink, lease } = under.serve({ n: 2 })
  const request = await arrived(vllm)
  request.accept().role().text('a', 'stop').role(1).text('b', 'stop', 1).usage(7, 2).done()
  vllm.record(lease)
  vllm.record(lease, { handled })
  expect((await sink.over)?.measurement).toMatchObject({ handled })
})

test('a plug-in that can be told hears that a program goes on elsewhere, by the name that its calls have', async () => {
  const vllm = await scriptedVllm()
  vllm.hello = { handle: true }
  const under = await startFront(vllm)
  under.serve({}, PROGRAM)
  const named = (await arrived(vllm)).body.vllm_xargs as { switchyard_program: string }
  under.front.discard(PROGRAM)
  const told = () => vllm.heard.filter(({ type }) => type === 'handle')
  await until(() => told().length > 0)
  expect(told()).toEqual([{ type: 'handle', handling: 'discard', program: named.switchyard_program }])
})

test('a plug-in that does not know the message is not told', async () => {
  const vllm = await scriptedVllm()
  const under = await startFront(vllm)
  under.front.discard(PROGRAM)
  const change = under.front.changeOptions({ policy: 'lamps' })
  await until(() => vllm.heard.some(({ type }) => type === 'options'))
  vllm.say({ type: 'applied', number: 1 })
  expect(await change).toEqual({ status: 'applied' })
  expect(vllm.heard.map(({ type }) => type)).not.toContain('handle')
})
