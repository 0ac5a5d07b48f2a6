import { expect, test } from 'vitest'
import { record } from '../core/testing/builders.ts'
import { BatchMeter } from './batch-meter.ts'

function testing(groups: number, fails: (tenant: string) => boolean = () => false) {
  const asked: [tenant: string, leases: string[]][] = []
  const waits: (() => void)[] = []
  const meter = new BatchMeter({
    groups,
    meter: async ({ tenant }, records) => {
      asked.push([tenant, records.map(({ lease }) => lease)])
      if (fails(tenant)) throw new Error(`${tenant} is away`)
    },
    wait: () => new Promise((resolve) => void waits.push(resolve)),
  })
  const of = (tenant: string, ...leases: string[]) =>
    meter.record(
      { tenant, shard: 0 },
      leases.map((lease) => record({ lease, call: lease, tenant })),
    )
  const later = (): void => {
    for (const resolve of waits.splice(0)) resolve()
  }
  return { asked, waits, of, later }
}

test('records of one tenant that come together are one request, and those that come later another', async () => {
  const { asked, of, later } = testing(4)
  const first = [of('a', 'l1'), of('a', 'l2', 'l3'), of('b', 'l4')]
  expect(asked).toEqual([])
  later()
  await Promise.all(first)
  const second = of('a', 'l5')
  later()
  await second
  expect(asked).toEqual([
    ['a', ['l1', 'l2', 'l3']],
    ['b', ['l4']],
    ['a', ['l5']],
  ])
})

test('a request that fails fails those whose records it had, and no others', async () => {
  const { of, later } = testing(3, (tenant) => tenant === 'a')
  const all = Promise.allSettled([of('a', 'l1'), of('b', 'l2'), of('a', 'l3')])
  later()
  expect((await all).map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected'])
})

test('a batch of one group waits for no others', async () => {
  const { asked, waits, of } = testing(1)
  await of('a', 'l1')
  expect(asked).toEqual([['a', ['l1']]])
  expect(waits).toEqual([])
})
