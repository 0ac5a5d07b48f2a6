/**
 * The proof of a lease: the lease's terms (core/call/lease-terms.ts) and an HMAC of them and of what the lease is for,
 * under a secret that agents never see. It is put into the ticket and echoed in the record. A record without a valid proof
 * is rejected. So an agent cannot invent leases, cannot charge its work to another tenant, program, run, call or engine
 * than the one that it was given, and cannot change the terms.
 *
 * To an agent it is an opaque text of at most 64 characters, so agents of every version echo it.
 */
import { COUNT_MAX, type LeaseTerms, SEQUENCES_MAX } from '../core/call/lease-terms.ts'
import type { TicketClaims } from '../protocol/index.ts'
import { KEY_ID_HASH_CHARS, KEY_ID_PREFIX } from '../store/secrets.ts'

const PROOF_BYTES = 16
const KEY_BYTES = KEY_ID_HASH_CHARS / 2
const KEY_AT = 4 + 2 + 8 + 4 + 4 + 2
/** Time in seconds and ms, speed factor, tokens of prompt and output, sequences, key. */
const TERMS_BYTES = KEY_AT + KEY_BYTES
/**
 * Counts have 31 bits, so the first bit of either is free: two for the reason. A version that does not know them reads bounds
 * that are too high, which lower nothing.
 */
const TOP_BIT = 2 ** 31
const REASONS: readonly LeaseTerms['reason'][] = [null, 'pinned', 'least_used', 'spilled']

/** Of a proof without terms, as earlier versions made it: hex. */
const PLAIN_PROOF_CHARS = 2 * PROOF_BYTES

type Granted = Pick<
  TicketClaims,
  'lease' | 'tenant' | 'program' | 'run' | 'call' | 'agent' | 'engine' | 'model' | 'region'
>

export type Proof = { status: 'proven'; terms: LeaseTerms | null } | { status: 'unproven' }

const encoder = new TextEncoder()
/** The isolate's key, and the secret that it was made from. */
let kept: { secret: string; key: CryptoKey } | null = null

async function importKey(secret: string): Promise<CryptoKey> {
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const bytes = encoder.encode(`lease-proof:${secret}`)
  const key = await crypto.subtle.importKey('raw', bytes, hmac, false, ['sign', 'verify'])
  kept = { secret, key }
  return key
}

export async function leaseProof(lease: Granted, terms: LeaseTerms, secret: string): Promise<string> {
  const packed = packTerms(terms)
  const hmac = await hmacOf(lease, base64url(packed), secret)
  const bytes = new Uint8Array(TERMS_BYTES + PROOF_BYTES)
  bytes.set(packed)
  bytes.set(hmac, TERMS_BYTES)
  return base64url(bytes)
}

export async function checkProof(
  record: Granted & { lease_proof?: string | undefined },
  secret: string,
): Promise<Proof> {
  const given = record.lease_proof ?? ''
  if (given.length === PLAIN_PROOF_CHARS) {
    const hex = Array.from(await hmacOf(record, null, secret), (byte) => byte.toString(16).padStart(2, '0')).join('')
    return isEqual(given, hex) ? { status: 'proven', terms: null } : { status: 'unproven' }
  }
  const bytes = bytesOf(given)
  if (bytes === null || bytes.length !== TERMS_BYTES + PROOF_BYTES) return { status: 'unproven' }
  const packed = bytes.subarray(0, TERMS_BYTES)
  const expected = base64url(await hmacOf(record, base64url(packed), secret))
  if (!isEqual(base64url(bytes.subarray(TERMS_BYTES)), expected)) return { status: 'unproven' }
  return { status: 'proven', terms: unpackTerms(packed) }
}

async function hmacOf(granted: Granted, terms: string | null, secret: string): Promise<Uint8Array> {
  const { lease, tenant, program, run, call, agent, engine, model, region } = granted
  const words = [lease, tenant, program, run, call, agent, engine, model, region, ...(terms === null ? [] : [terms])]
  const key = kept?.secret === secret ? kept.key : await importKey(secret)
  const hmac = await crypto.subtle.sign('HMAC', key, encoder.encode(JSON.stringify(words)))
  return new Uint8Array(hmac, 0, PROOF_BYTES)
}

function packTerms(terms: LeaseTerms): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(TERMS_BYTES))
  const granted_at_ms = Math.max(0, Math.floor(terms.granted_at_ms))
  bytes.setUint32(0, Math.floor(granted_at_ms / 1000))
  bytes.setUint16(4, granted_at_ms % 1000)
  bytes.setFloat64(6, terms.speed_factor)
  const reason = REASONS.indexOf(terms.reason)
  bytes.setUint32(14, Math.min(COUNT_MAX, terms.prompt_tokens_max) + (reason & 1) * TOP_BIT)
  bytes.setUint32(18, Math.min(COUNT_MAX, terms.output_tokens_max) + (reason >> 1) * TOP_BIT)
  bytes.setUint16(22, Math.min(SEQUENCES_MAX, terms.sequences_max))
  // Zeros where there is no key: no hash consists of them.
  if (terms.key !== null) bytes.setBigUint64(KEY_AT, BigInt(`0x${terms.key.slice(KEY_ID_PREFIX.length)}`))
  return new Uint8Array(bytes.buffer)
}

function unpackTerms(packed: Uint8Array): LeaseTerms {
  const bytes = new DataView(packed.buffer, packed.byteOffset, packed.byteLength)
  return {
    granted_at_ms: bytes.getUint32(0) * 1000 + bytes.getUint16(4),
    speed_factor: bytes.getFloat64(6),
    prompt_tokens_max: bytes.getUint32(14) % TOP_BIT,
    output_tokens_max: bytes.getUint32(18) % TOP_BIT,
    sequences_max: bytes.getUint16(22),
    key: keyOfBits(bytes.getBigUint64(KEY_AT)),
    reason: REASONS[Math.floor(bytes.getUint32(14) / TOP_BIT) + 2 * Math.floor(bytes.getUint32(18) / TOP_BIT)] ?? null,
  }
}

function keyOfBits(bits: bigint): string | null {
  return bits === 0n ? null : KEY_ID_PREFIX + bits.toString(16).padStart(KEY_ID_HASH_CHARS, '0')
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

/** Null: it is no base64url. */
function bytesOf(text: string): Uint8Array | null {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return null
  return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))
}

/** In a time that does not depend on where they differ. */
function isEqual(given: string, expected: string): boolean {
  let difference = given.length ^ expected.length
  for (let at = 0; at < expected.length; at++) difference |= given.charCodeAt(at) ^ expected.charCodeAt(at)
  return difference === 0
}
