import { expect, onTestFinished, test } from 'vitest'
import { ClassSketch } from '../../../../../src/core/classes/class-sketch.ts'
import type { ClassData } from '../../../../../src/protocol/index.ts'
import type { Objective } from '../../../../../src/protocol/objective.ts'
import { KnownClasses } from '../../../classes/known-classes.ts'
import { until } from '../../../testing/harness.ts'
import { scriptedVllm, startFront } from '../testing/start-vllm-front.ts'
import { ANY_CLASS, CLASSES_PER_MESSAGE_MAX, ClassTeller, type ToldClass } from './class-teller.ts'

function data(name: string, ends: number, tenant = 'tenant'): ClassData {
  const sketch = new ClassSketch()
  const program = { output_tokens: 50, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 }
  for (let end = 0; end < ends; end++) sketch.add(program)
  return { tenant, class: name, sketch: sketch.data() }
}

function teller(classes: KnownClasses) {
  const messages: (readonly ToldClass[])[] = []
  const engine = { takes: true }
  const tell = (told: readonly ToldClass[]): boolean => {
    messages.push(told)
    return engine.takes
  }
  const made = new ClassTeller({ classes: classes.book, tell })
  onTestFinished(() => made.stop())
  const names = () => messages.map((told) => told.map(({ class: name }) => name))
  return { teller: made, messages, names, engine }
}

const of = (tenant: string, name: string, objective: Objective = 'token_latency') => ({
  ...{ tenant, class: name, objective },
})

test('a class is told when a call of it comes, once, and again when more is known', async () => {
  const known = new KnownClasses([data('a', 1), data('b', 1)])
  const { teller: it, messages, names } = teller(known)
  for (let call = 0; call < 3; call++) it.used(of('tenant', 'a'))
  it.used(of('other', 'a'))
  await until(() => messages.length === 1)
  known.take([data('a', 2)])
  it.used(of('tenant', 'b'))
  it.used(of('tenant', 'a'))
  await until(() => messages.length === 2)
  expect(names()).toEqual([['a'], ['b', 'a']])
  expect(messages[1]?.[1]).toEqual({
    ...{ tenant: 'tenant', class: 'a', objective: 'token_latency' },
    table: known.book.tableOf('tenant', 'a', 'token_latency'),
  })
})

test('for classes of which nothing is known, what is known of their tenant is told once', async () => {
  const known = new KnownClasses([data('a', 1)])
  const { teller: it, messages, names } = teller(known)
  for (const name of ['unknown', 'a', 'another']) it.used(of('tenant', name))
  it.used(of('other', 'unknown'))
  await until(() => messages.length === 1)
  known.take([data('unknown', 2)])
  it.used(of('tenant', 'another'))
  it.used(of('tenant', 'unknown'))
  await until(() => messages.length === 2)
  expect(names()).toEqual([
    [ANY_CLASS, 'a'],
    [ANY_CLASS, 'unknown'],
  ])
  expect(messages[1]?.[0]?.table).toEqual(known.book.tableOf('tenant', 'yet another', 'token_latency'))
})

test('a class is told for each objective of its calls', async () => {
  const known = new KnownClasses([data('a', 300)])
  const { teller: it, messages } = teller(known)
  it.used(of('tenant', 'a'))
  it.used(of('tenant', 'a', 'response'))
  await until(() => messages.length === 1)
  expect(messages[0]?.map(({ objective }) => objective)).toEqual(['token_latency', 'response'])
  expect(messages[0]?.[1]?.table).toEqual(known.book.tableOf('tenant', 'a', 'response'))
  expect(messages[0]?.[1]?.table).not.toEqual(messages[0]?.[0]?.table)
})

test('many classes go in several messages, and what the engine does not take is told with another call', async () => {
  const many = Array.from({ length: CLASSES_PER_MESSAGE_MAX + 1 }, (_, at) => data(`${at}`, 1))
  const { teller: it, names, messages, engine } = teller(new KnownClasses(many))
  engine.takes = false
  for (const { class: name } of many) it.used(of('tenant', name))
  await until(() => messages.length === 2)
  expect(names().map(({ length }) => length)).toEqual([CLASSES_PER_MESSAGE_MAX, 1])
  engine.takes = true
  it.used(of('tenant', '0'))
  await until(() => messages.length === 3)
  it.forget()
  it.used(of('tenant', '0'))
  await until(() => messages.length === 4)
  expect(names().slice(2)).toEqual([['0'], ['0']])
})

test('a plug-in that takes tables hears those of the classes of its calls, and hears them again when it comes back', async () => {
  const known = new KnownClasses([data('app:x', 3), data('app:y', 3)])
  const vllm = await scriptedVllm()
  vllm.hello = { classes: true }
  const under = await startFront(vllm, { classes: known.book })
  const told = () => vllm.heard.filter(({ type }) => type === 'classes')
  under.serve({}, { class: 'app:x' })
  await until(() => told().length === 1)
  const table = JSON.parse(JSON.stringify(known.book.tableOf('tenant', 'app:x', 'token_latency')))
  const classes = [{ tenant: 'tenant', class: 'app:x', objective: 'token_latency', table }]
  expect(told()).toEqual([{ type: 'classes', classes }])
  vllm.restart('engine-2')
  await until(() => vllm.connected && under.front.describe().epoch === 'engine-2')
  under.serve({}, { class: 'app:x' })
  await until(() => told().length === 2)
})

test('a plug-in that does not know of tables hears of none', async () => {
  const vllm = await scriptedVllm()
  const under = await startFront(vllm, { classes: new KnownClasses([data('app:x', 3)]).book })
  under.serve({}, { class: 'app:x' })
  await until(() => vllm.requests.length === 1)
  vllm.say({ type: 'status', kv_used: 0.5 })
  await until(() => under.front.status().kv_used_tokens > 0)
  expect(vllm.heard.filter(({ type }) => type === 'classes')).toEqual([])
})
