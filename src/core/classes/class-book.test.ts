import { describe, expect, it } from 'vitest'
import { CLASSES_MAX, ClassBook } from './class-book.ts'
import { ClassSketch } from './class-sketch.ts'

function sketchOf(output_tokens: number, ends = 200): ClassSketch {
  const sketch = new ClassSketch()
  for (let end = 0; end < ends; end++) {
    sketch.add({ output_tokens, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 })
  }
  return sketch
}

describe('a book of classes', () => {
  it('has a table for each class and objective, and none across tenants', () => {
    const book = new ClassBook()
    book.set('a', 'app:x', sketchOf(1000))
    expect(book.tableOf('b', 'app:x', 'response')).toBeNull()
    expect(book.sketchOf('b', 'app:x')).toBeNull()
    expect(book.tableOf('a', 'app:y', 'response')).toBeNull()
    const table = book.tableOf('a', 'app:x', 'response')
    expect(table?.steps[0]?.remaining_tokens).toBeGreaterThan(900)
    expect(book.tableOf('a', 'app:x', 'response')).toBe(table)
    expect(book.tableOf('a', 'app:x', 'token_latency')).not.toEqual(table)
  })

  it('orders by what was set last, and by a sketch that grew once that is published', () => {
    const book = new ClassBook()
    const sketch = sketchOf(1000)
    book.set('a', 'x', sketch)
    const before = book.tableOf('a', 'x', 'response')
    for (let end = 0; end < 2000; end++) {
      sketch.add({ output_tokens: 10, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 })
    }
    expect(book.tableOf('a', 'x', 'response')).toBe(before)
    book.publish()
    const after = book.tableOf('a', 'x', 'response')
    expect(after?.steps[0]?.remaining_tokens).toBeLessThan((before?.steps[0]?.remaining_tokens ?? 0) / 2)
    book.set('a', 'x', sketchOf(1000))
    expect(book.tableOf('a', 'x', 'response')).toEqual(before)
  })

  it('is bounded, and forgets the class that was asked for longest ago', () => {
    const book = new ClassBook()
    const sketch = sketchOf(5, 1)
    for (let at = 0; at < CLASSES_MAX; at++) book.set('a', `${at}`, sketch)
    expect(book.tableOf('a', '0', 'response')).not.toBeNull()
    book.set('a', 'one more', sketch)
    expect(book.sketchOf('a', '0')).toBe(sketch)
    expect(book.sketchOf('a', '1')).toBeNull()
    expect(book.sketchOf('a', 'one more')).toBe(sketch)
  })
})
