import { expect, it } from 'vitest'
import { isActorRestart, isStorageFailure, ofAskedActor } from './storage-failure.ts'

it('knows what workerd says of an actor whose write failed, and nothing else', () => {
  expect(isStorageFailure(new Error('internal error; reference = at105ir2e0sisolbb72hfnuf'))).toBe(true)
  expect(isStorageFailure(new Error('database or disk is full: SQLITE_FULL'))).toBe(true)
  expect(isStorageFailure(new Error('disk I/O error: SQLITE_IOERR (extended: SQLITE_IOERR_SHMSIZE)'))).toBe(true)
  expect(isStorageFailure(new Error('UNIQUE constraint failed: SQLITE_CONSTRAINT'))).toBe(false)
  expect(isStorageFailure(new Error('The program is unknown; internal error; reference = x'))).toBe(false)
  expect(isStorageFailure('internal error; reference = x')).toBe(false)
})

it('knows an actor that was restarted or is overloaded', () => {
  for (const mark of ['durableObjectReset', 'retryable', 'overloaded'])
    expect(isActorRestart(Object.assign(new Error('x'), { [mark]: true }))).toBe(true)
  for (const other of [new Error('evicted'), { retryable: false }, null, 'retryable'])
    expect(isActorRestart(other)).toBe(false)
})

it('knows it over two actors, of which a caller sees the message alone', () => {
  const passed_on = ofAskedActor(Object.assign(new Error('overloaded'), { retryable: true })) as Error
  expect(isActorRestart(new Error(passed_on.message))).toBe(true)
  const bug = new Error('a bug')
  expect(ofAskedActor(bug)).toBe(bug)
})
