import { expect, test } from 'vitest'
import { COUNT_MAX, type LeaseTerms, SEQUENCES_MAX } from '../core/call/lease-terms.ts'
import { CallRecord, TicketClaims } from '../protocol/index.ts'
import { checkProof, leaseProof } from './lease-proof.ts'

const SECRET = 'a secret'
const LEASE = {
  ...{ lease: 'l', tenant: 't', program: 'p', run: 'r', call: 'c', agent: 'a', engine: 'e', model: 'm', region: 'g' },
}
const TERMS: LeaseTerms = {
  ...{ granted_at_ms: 1_800_000_000_123, speed_factor: 0.833_333_333_333_333_4 },
  ...{ prompt_tokens_max: COUNT_MAX, output_tokens_max: 1, sequences_max: SEQUENCES_MAX },
  key: 'key-0123456789abcdef',
  reason: 'spilled',
}

test('the terms come back as they were granted', async () => {
  const lease_proof = await leaseProof(LEASE, TERMS, SECRET)
  expect(await checkProof({ ...LEASE, lease_proof }, SECRET)).toEqual({ status: 'proven', terms: TERMS })
  expect(TicketClaims.shape.lease_proof.parse(lease_proof)).toBe(lease_proof)
  expect(CallRecord.shape.lease_proof.parse(lease_proof)).toBe(lease_proof)
})

test.each([null, 'pinned', 'least_used', 'spilled'] as const)(
  'the reason %s comes back beside the bounds',
  async (reason) => {
    const terms = { ...TERMS, reason, prompt_tokens_max: 7, output_tokens_max: COUNT_MAX }
    const lease_proof = await leaseProof(LEASE, terms, SECRET)
    expect(await checkProof({ ...LEASE, lease_proof }, SECRET)).toEqual({ status: 'proven', terms })
  },
)

test('no change of the lease, of the terms or of the secret is proven', async () => {
  const lease_proof = await leaseProof(LEASE, TERMS, SECRET)
  for (const field of Object.keys(LEASE)) {
    expect(await checkProof({ ...LEASE, [field]: 'x', lease_proof }, SECRET)).toEqual({ status: 'unproven' })
  }
  for (let at = 0; at < lease_proof.length; at += 1) {
    const other = lease_proof[at] === 'A' ? 'B' : 'A'
    const changed = lease_proof.slice(0, at) + other + lease_proof.slice(at + 1)
    const proof = await checkProof({ ...LEASE, lease_proof: changed }, SECRET)
    // The last character has bits that no byte takes.
    if (at < lease_proof.length - 1) expect(proof).toEqual({ status: 'unproven' })
  }
  expect(await checkProof({ ...LEASE, lease_proof }, 'another')).toEqual({ status: 'unproven' })
})

test.each(['', 'x', '0'.repeat(32), '0'.repeat(64), '%'.repeat(54), 'A'.repeat(54), 'A'.repeat(53)])(
  'the proof %j proves nothing',
  async (lease_proof) => {
    expect(await checkProof({ ...LEASE, lease_proof }, SECRET)).toEqual({ status: 'unproven' })
  },
)

test('a proof of an earlier version is valid, and has no terms', async () => {
  // HMAC-SHA256 under "lease-proof:a secret" of the JSON list of the lease's words, its first 16 bytes.
  const key = await crypto.subtle.importKey(
    'raw',
    new TextEncoder().encode(`lease-proof:${SECRET}`),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['sign'],
  )
  const words = JSON.stringify(['l', 't', 'p', 'r', 'c', 'a', 'e', 'm', 'g'])
  const hmac = Buffer.from(await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(words)))
  const lease_proof = hmac.subarray(0, 16).toString('hex')
  expect(await checkProof({ ...LEASE, lease_proof }, SECRET)).toEqual({ status: 'proven', terms: null })
})
