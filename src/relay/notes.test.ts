/** Notes to a program's actor are requests that are billed: only what the actor does not know and the record does not say is told. */
import { describe, expect, it } from 'vitest'
import type { AdmitRequest } from '../actors/contracts.ts'
import { runCall } from './run-call.ts'
import { ADMITTED, answering, chat, failing, leaseOf, PROGRAM, world } from './testing/world.ts'

const PIN = { region: 'near', model: 'm', engine: 'e0', epoch: 'epoch-1' }
const admit = async ({ lease = null }: AdmitRequest) => ({ ...ADMITTED, pin: PIN, expected_lease: lease })

async function notes(of: ReturnType<typeof world>) {
  await (await runCall(chat({}, PROGRAM), 'chat', of.deps)).text()
  await of.settled()
  return of.said.filter(({ to }) => to === 'program').map(({ method }) => method)
}

describe('a call', () => {
  it('on the engine where its lease is expected is admitted, and no note follows', async () => {
    const it = world({ engines: { e0: answering('x') }, program: { admit } })
    expect(await notes(it)).toEqual(['admit'])
    const [admitted] = it.saidTo('admit') as AdmitRequest[]
    const [leased] = it.saidTo('lease') as { lease: string }[]
    expect(leased?.lease).toBe(admitted?.lease)
  })

  it('brings the end of the call before it, once', async () => {
    const it = world({ engines: { e0: answering('x') }, program: { admit } })
    await notes(it)
    await notes(it)
    await notes(it)
    const [first, second, third] = it.saidTo('admit') as AdmitRequest[]
    expect(first?.ended).toBeUndefined()
    expect(second?.ended).toMatchObject([{ run: 'run-1', call: first?.call, outcome: 'completed' }])
    expect(third?.ended).toMatchObject([{ run: 'run-1', call: second?.call, outcome: 'completed' }])
  })

  it.each([
    ['on another engine', { engine: 'e1' }],
    ['on that engine after a restart', { epoch: 'epoch-2' }],
    ['for a reason that no proof carries', { reason: 'pin_overloaded' }],
  ])('%s tells of its lease', async (_, change) => {
    const lease = async () => ({ ...leaseOf('e0'), ...change }) as ReturnType<typeof leaseOf>
    const it = world({ engines: { e0: answering('x'), e1: answering('y') }, program: { admit }, pool: { lease } })
    expect(await notes(it)).toEqual(['admit', 'leaseOpened'])
    expect(it.saidTo('leaseOpened')).toMatchObject([change])
  })

  it('that no engine takes says that its lease was never granted', async () => {
    const it = world({ program: { admit } })
    expect(await notes(it)).toEqual(['admit', 'callEnded'])
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'no_engine', is_unleased: true }])
  })

  it('whose engine fails tells of that lease and of the next', async () => {
    const it = world({ engines: { e0: failing({ code: 'engine_failed' }), e1: answering('x') }, program: { admit } })
    expect(await notes(it)).toEqual(['admit', 'leaseLost', 'leaseOpened'])
    const [admitted] = it.saidTo('admit') as AdmitRequest[]
    expect(it.saidTo('leaseLost')).toMatchObject([{ lease: admitted?.lease }])
    expect(it.saidTo('leaseOpened')).toMatchObject([{ engine: 'e1', reason: 'least_used' }])
  })
})
