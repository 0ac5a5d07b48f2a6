import { expect, it } from 'vitest'
import type { HostEngine, HostStatus } from '../../protocol/host.ts'
import { nodeEngines } from './node-engines.ts'
import { loanOf } from './testing/loans.ts'

const loan = loanOf({ placed: [{ node: 0, tp: 1, first_gpus: [0, 2] }] })

function told(agent: string, epoch: number, state: HostEngine['state'], message: string | null = null): HostStatus {
  const engine = { id: `${agent}-x0`, model: 'small', gpus: [0], home: false, state, message }
  return { type: 'status', seq: 1, epoch, engines: [engine] }
}

function nodes(statuses: Record<string, HostStatus>, done: string[] = []) {
  return nodeEngines(loan, done, (agent) => statuses[agent] ?? null)
}

it('a node is ready when one of its engines is', () => {
  const [a, a2, b] = nodes({ 'host-1': told('host-1', 3, 'ready'), 'host-2': told('host-2', 3, 'failed', 'no memory') })
  expect(a).toMatchObject({ node: 'a', state: 'ready', message: null })
  expect(a?.engines.map(({ engine, state }) => [engine, state])).toEqual([
    ['host-1-x0', 'ready'],
    ['host-2-x0', 'failed'],
  ])
  expect(a2).toMatchObject({ node: 'a2', state: 'ready' })
  expect(b).toEqual({ node: 'b', model: 'large', state: 'later', engines: [], message: null })
})

it('is loading while hosts have not spoken of this stage, and failed only when all have failed', () => {
  expect(nodes({})[0]?.state).toBe('loading')
  expect(nodes({ 'host-1': told('host-1', 2, 'ready') })[0]?.state).toBe('loading')
  expect(nodes({ 'host-1': told('host-1', 3, 'stopping') })[0]?.state).toBe('loading')
  const failed = told('host-1', 3, 'failed', 'no memory')
  expect(nodes({ 'host-1': failed })[0]).toMatchObject({ state: 'loading', message: 'no memory' })
  expect(nodes({ 'host-1': failed, 'host-2': told('host-2', 3, 'failed') })[0]?.state).toBe('failed')
})

it('a node that the application has ended is done, also where another of the same plan node is not', () => {
  expect(nodes({}, ['a']).map(({ state }) => state)).toEqual(['done', 'loading', 'later'])
})
