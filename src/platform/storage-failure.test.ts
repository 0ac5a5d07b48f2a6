import { expect, it } from 'vitest'
import { isStorageFailure } from './storage-failure.ts'

it('knows what workerd says of an actor whose write failed, and nothing else', () => {
  expect(isStorageFailure(new Error('internal error; reference = at105ir2e0sisolbb72hfnuf'))).toBe(true)
  expect(isStorageFailure(new Error('The program is unknown; internal error; reference = x'))).toBe(false)
  expect(isStorageFailure('internal error; reference = x')).toBe(false)
})
