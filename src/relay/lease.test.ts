/** Which regions' pools a call asks, where few of many regions serve its model. */
import { expect, it } from 'vitest'
import type { LeaseReply, PoolRpc } from '../actors/contracts.ts'
import { REGIONS_ASKED_MAX } from '../core/pool/regions.ts'
import { runCall } from './run-call.ts'
import { answering, chat, failureOf, leaseOf, MODEL, PROGRAM, world } from './testing/world.ts'

const REGIONS = Array.from({ length: 20 }, (_, at) => `region-${at}`)
const NONE: LeaseReply = { status: 'none', retry_after_s: 5, ticket_kid: null, snapshot: null, charges: [] }

/** `linked`: regions in which an agent has served the model. `ready`: those that have an engine now. */
function call(linked: readonly string[], ready: readonly string[]) {
  const asked: string[] = []
  const made = world({ engines: { e0: answering('hello') }, regions: REGIONS })
  const known = made.deps.catalogue()
  const deps = {
    ...made.deps,
    catalogue: async () => ({ ...(await known), linked: new Map([[MODEL, new Set(linked)]]) }),
    pool: ({ id }: { id: string }) =>
      ({
        lease: async () => {
          asked.push(id)
          return ready.includes(id) ? leaseOf('e0') : NONE
        },
        noticeClass: async () => {},
      }) as unknown as PoolRpc,
  }
  return { asked, answer: () => runCall(chat({}, PROGRAM), 'chat', deps) }
}

it('goes straight to the one region that serves the model, behind any number of others', async () => {
  const { asked, answer } = call(['region-17'], ['region-17'])
  const response = await answer()
  expect(response.status).toBe(200)
  expect(response.headers.get('x-region')).toBe('region-17')
  expect(asked).toEqual(['region-17'])
})

it('asks regions that serve the model nearest first', async () => {
  const { asked, answer } = call(['region-17', 'region-12', 'region-15'], ['region-15', 'region-17'])
  expect((await answer()).status).toBe(200)
  expect(asked).toEqual(['region-12', 'region-15'])
})

it('asks the others where none of those has an engine: one may have just come', async () => {
  const { asked, answer } = call(['region-17'], ['region-2'])
  expect((await answer()).status).toBe(200)
  expect(asked).toEqual(['region-17', 'region-0', 'region-1', 'region-2'])
})

it('asks at most eight regions when no region serves the model', async () => {
  const { asked, answer } = call([], [])
  expect(await failureOf(await answer())).toMatchObject({ status: 503, code: 'no_engine' })
  expect(asked).toEqual(REGIONS.slice(0, REGIONS_ASKED_MAX))
})
