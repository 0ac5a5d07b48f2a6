import { expect, it } from 'vitest'
import { cacheSaltOf, DERIVED_KEPT_MAX, derivedKept } from './ticket.ts'

it('a cache salt is one per tenant and secret', async () => {
  const salt = await cacheSaltOf('t', 'secret')
  expect(salt).toMatch(/^[0-9a-f]{32}$/)
  expect(await cacheSaltOf('t', 'secret')).toBe(salt)
  expect(await cacheSaltOf('u', 'secret')).not.toBe(salt)
  expect(await cacheSaltOf('t', 'another')).not.toBe(salt)
})

it('an isolate keeps no more than the bound, and derives again what it gave up', async () => {
  const first = await cacheSaltOf('tenant-0', 'bound')
  for (let tenant = 1; tenant <= DERIVED_KEPT_MAX + 1; tenant += 1) await cacheSaltOf(`tenant-${tenant}`, 'bound')
  expect(derivedKept()).toBe(DERIVED_KEPT_MAX)
  expect(await cacheSaltOf('tenant-0', 'bound')).toBe(first)
})
