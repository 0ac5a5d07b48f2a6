import { expect, test } from 'vitest'
import { requestHeaders } from './request-headers.ts'

test('answers as the headers themselves do', () => {
  const headers = new Headers([
    ['X-Program-Id', 'p'],
    ['accept', 'a'],
    ['accept', 'b'],
    ['x-empty', ''],
  ])
  const read = requestHeaders(headers)
  for (const name of ['x-program-id', 'X-PROGRAM-ID', 'accept', 'x-empty', 'x-none', '__proto__']) {
    expect(read.get(name)).toBe(headers.get(name))
  }
})
