import { expect, test } from 'vitest'
import { entry, grant, record } from '../core/testing/builders.ts'
import { CheckpointJson, LeaseRowJson } from './program-row-schemas.ts'

const KV_SWAP = ['swapped_out_tokens', 'swapped_in_tokens', 'recomputed_tokens', 'swap_us'] as const

function stored() {
  const program = entry()
  program.leaseOpened(grant({ call: 'c', lease: 'l' }))
  program.settle(record({ call: 'c', lease: 'l' }), 1)
  const { checkpoint, leases } = program.takeDirty(1)
  return structuredClone({ checkpoint, lease: leases[0] })
}

test('what a lease and a checkpoint hold comes back', () => {
  const { checkpoint, lease } = stored()
  expect(CheckpointJson.parse(checkpoint)).toEqual(checkpoint)
  expect(LeaseRowJson.parse(lease)).toEqual(lease)
  expect(checkpoint?.totals).toMatchObject({ swapped_out_tokens: 12, swap_us: 6 })
})

test('a version that did not count swapped KV left it out, and it is 0', () => {
  const { checkpoint, lease } = stored()
  for (const field of KV_SWAP) {
    Reflect.deleteProperty(checkpoint?.totals ?? {}, field)
    Reflect.deleteProperty(lease ?? {}, field)
  }
  const none = Object.fromEntries(KV_SWAP.map((field) => [field, 0]))
  expect(CheckpointJson.parse(checkpoint).totals).toEqual({ ...checkpoint?.totals, ...none })
  expect(LeaseRowJson.parse(lease)).toEqual({ ...lease, ...none })
})
