import { expect, test } from 'vitest'
import { EARLY_CANCELS_MAX, EarlyCancels } from './early-cancels.ts'
import { ERRORS } from './stream-errors.ts'

test('a cancel is kept for one call', () => {
  const early = new EarlyCancels()
  early.add('l', ERRORS.program_ended)
  expect(early.take('other')).toBeNull()
  expect(early.take('l')).toEqual(ERRORS.program_ended)
  expect(early.take('l')).toBeNull()
})

test('past the bound the oldest is forgotten', () => {
  const early = new EarlyCancels()
  for (let n = 0; n < EARLY_CANCELS_MAX; n++) early.add(`l${n}`, ERRORS.program_ended)
  expect(early.take('l0')).not.toBeNull()
  for (let n = 0; n < 2; n++) early.add(`m${n}`, ERRORS.program_ended)
  expect(early.take('l1')).toBeNull()
  expect(early.take('l2')).not.toBeNull()
})
