/** An actor that a request needs restarts under it, or its storage takes nothing. The client is told to send it again. */
import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { app } from '../../src/api/app.ts'
import { KEY_A, ORIGIN, provision } from './fixtures.ts'

beforeAll(provision)

beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const restarted = Object.assign(new Error('Durable Object reset because its code was updated.'), {
  durableObjectReset: true,
})
const full = Object.assign(new Error('database or disk is full: SQLITE_FULL'), { durableObjectReset: true })

it.each([
  ['GET', '/v1/programs/p'],
  ['GET', '/v1/programs/p/calls'],
  ['GET', '/v1/programs/p/fcfs'],
  ['DELETE', '/v1/programs/p'],
])('%s %s', async (method, path) => {
  for (const [error, code] of [
    [restarted, 'actor_unavailable'],
    [full, 'storage_unavailable'],
  ] as const) {
    const fails = () => Promise.reject(error)
    const PROGRAM = { ...env.PROGRAM, getByName: () => ({ describe: fails, calls: fails, end: fails }) }
    const request = new Request(`${ORIGIN}${path}`, { method, headers: { authorization: `Bearer ${KEY_A}` } })
    const answer = await app.fetch(request, { ...env, PROGRAM } as never, createExecutionContext())
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await answer.json()).toMatchObject({ error: { type: 'server_error', code } })
  }
})
