import { expect, test } from 'vitest'
import { ClassSketch } from '../../../src/core/classes/class-sketch.ts'
import type { ClassData } from '../../../src/protocol/index.ts'
import { ClassSketchData } from '../../../src/protocol/index.ts'
import { KNOWN_CLASSES_MAX, KnownClasses } from './known-classes.ts'

function data(name: string, ends: number, tenant = 'a'): ClassData {
  const sketch = new ClassSketch()
  for (let end = 0; end < ends; end++) {
    sketch.add({ output_tokens: 100, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 })
  }
  return { tenant, class: name, sketch: ClassSketchData.parse(sketch.data()) }
}

test('engines order by what was told last, each tenant by its own', () => {
  const known = new KnownClasses([data('x', 1)])
  const before = known.book.tableOf('a', 'x', 'response')
  expect(known.take([data('x', 200), data('y', 1, 'b')]).map(({ class: name }) => name)).toEqual(['x', 'y'])
  expect(known.book.tableOf('a', 'x', 'response')).not.toEqual(before)
  expect(known.book.sketchOf('a', 'y')).toBeNull()
  expect(known.book.tableOf('c', 'y', 'response')).toBeNull()
  expect(known.book.tableOf('b', 'y', 'response')).not.toBeNull()
  expect(known.size).toBe(2)
})

test('what says nothing new changes nothing: its tables stay', () => {
  const known = new KnownClasses()
  known.take([data('x', 3)])
  const table = known.book.tableOf('a', 'x', 'response')
  expect(known.take([data('x', 3)])).toEqual([])
  expect(known.book.tableOf('a', 'x', 'response')).toBe(table)
  expect(known.take([data('x', 2)])).toHaveLength(1)
  const { sketch } = data('x', 2)
  expect(known.take([{ ...data('x', 2), sketch: { ...sketch, going_on: [[4, 1, 3]] } }])).toHaveLength(1)
})

test('is bounded: the class told longest ago is forgotten', () => {
  const known = new KnownClasses(Array.from({ length: KNOWN_CLASSES_MAX }, (_, at) => data(`${at}`, 1)))
  known.take([data('0', 2), data('one more', 1)])
  expect(known.size).toBe(KNOWN_CLASSES_MAX)
  const names = new Set(known.all().map(({ class: name }) => name))
  expect([names.has('0'), names.has('1'), names.has('one more')]).toEqual([true, false, true])
})
