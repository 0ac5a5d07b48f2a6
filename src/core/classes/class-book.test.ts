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
  it('has a table for each class and objective, and tells nothing across tenants', () => {
    const book = new ClassBook()
    book.set('a', 'app:x', sketchOf(1000))
    expect(book.tableOf('b', 'app:x', 'response')).toBeNull()
    expect(book.sketchOf('b', 'app:x')).toBeNull()
    expect(book.sketchOf('a', 'app:y')).toBeNull()
    const table = book.tableOf('a', 'app:x', 'response')
    expect(table?.steps[0]?.remaining_tokens).toBeGreaterThan(900)
    expect(book.tableOf('a', 'app:x', 'response')).toBe(table)
    expect(book.tableOf('a', 'app:x', 'token_latency')).not.toEqual(table)
  })

  it('orders a class of which nothing is known by what its tenant has, and by its own once that is known', () => {
    const book = new ClassBook()
    book.set('a', 'short', sketchOf(10))
    book.set('a', 'long', sketchOf(1000))
    const first = (tenant: string, name: string) => book.tableOf(tenant, name, 'response')?.steps[0]
    const unknown = first('a', 'new')
    expect(first('a', 'newer')).toBe(unknown)
    expect(unknown?.median_tokens).toBeGreaterThanOrEqual(10)
    expect(unknown?.median_tokens).toBeLessThan(first('a', 'long')?.median_tokens as number)
    expect(unknown?.remaining_tokens).toBeGreaterThan(first('a', 'short')?.remaining_tokens as number)
    book.set('a', 'new', sketchOf(10, 1))
    const begun = first('a', 'new')
    expect(begun?.remaining_tokens).toBeLessThan(unknown?.remaining_tokens as number)
    book.set('a', 'new', sketchOf(10))
    expect(first('a', 'new')).toEqual(first('a', 'short'))
    expect(first('b', 'new')).toBeUndefined()
  })

  it('follows the classes of a tenant as they change', () => {
    const book = new ClassBook()
    const unknown = () => book.tableOf('a', 'new', 'response')?.steps[0]?.median_tokens as number
    for (let at = 0; at < 100; at++) book.set('a', `${at}`, sketchOf(10, 20))
    const before = unknown()
    for (let at = 0; at < 100; at++) book.set('a', `${at}`, sketchOf(1000, 20))
    expect(unknown()).toBeGreaterThan(10 * before)
  })

  it('orders by what was set last', () => {
    const book = new ClassBook()
    const sketch = sketchOf(1000)
    book.set('a', 'x', sketch)
    const before = book.tableOf('a', 'x', 'response')
    for (let end = 0; end < 2000; end++) {
      sketch.add({ output_tokens: 10, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 })
    }
    expect(book.tableOf('a', 'x', 'response')).toBe(before)
    book.set('a', 'x', sketch)
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
