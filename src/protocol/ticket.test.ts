import { beforeAll, describe, expect, it } from 'vitest'
import { ID_CHARS_MAX } from './ids.ts'
import {
  deriveTicketKey,
  importTicketKey,
  signTicket,
  TICKET_CHARS_MAX,
  TICKET_CLOCK_TOLERANCE_S,
  TICKET_LIFETIME_S,
  TICKET_VERSION,
  type TicketClaims,
  verifyTicket,
} from './ticket.ts'
import { TOOL_NAME_CHARS_MAX } from './tools.ts'

const claims: Omit<TicketClaims, 'iat' | 'exp' | 'v'> = {
  tenant: 'acme',
  program: 'p1',
  run: 'r1',
  thread: 't0',
  call: 'c1',
  lease: 'l1',
  agent: 'us-1',
  engine: 'us-1-e0',
  epoch: 'e1',
  region: 'us-east',
  model: 'm',
  class: 'tenant',
  tenant_weight: 1,
  objective: 'token_latency',
  sequence: [1_700_000_000_000, 2 ** 32 - 1] as const,
  settled_service_us: 12,
  open_elsewhere_us: 5,
  critical_path_us: 7,
  program_wait_us: 3,
  program_output_tokens: 8,
  cache_salt: 'salt',
}
const now_s = 1_800_000_000
let key: CryptoKey
let keys: Map<string, CryptoKey>

beforeAll(async () => {
  key = await importTicketKey(await deriveTicketKey('master', '1', 'us-1'))
  keys = new Map([['1', key]])
})

describe('ticket', () => {
  it('carries its claims to the agent whose key signed it', async () => {
    const token = await signTicket(claims, key, '1', now_s)
    const verdict = await verifyTicket(token, keys, now_s + 1)
    expect(verdict).toEqual({
      ok: true,
      claims: { ...claims, v: TICKET_VERSION, iat: now_s, exp: now_s + TICKET_LIFETIME_S },
    })
    expect(token.length).toBeLessThan(TICKET_CHARS_MAX)
  })

  it('fits into its bound with the longest ids and numbers, and what a forecast goes by', async () => {
    const text = 'x'.repeat(ID_CHARS_MAX)
    const largest = Object.fromEntries(
      Object.entries(claims).map(([name, value]) => [name, typeof value === 'string' ? text : value]),
    ) as typeof claims
    const most = Number.MAX_SAFE_INTEGER
    const sums = { settled_service_us: most, open_elsewhere_us: most, critical_path_us: most, program_wait_us: most }
    const forecast = { position: most, last_tool: 'x'.repeat(TOOL_NAME_CHARS_MAX), expect_tool_us: most }
    const terms = {
      objective: 'token_latency' as const,
      source: 'conversation' as const,
      lease_proof: 'x'.repeat(64),
      program_output_tokens: most,
    }
    const full = { ...largest, ...sums, ...forecast, ...terms, sequence: [most, 2 ** 32 - 1] as const }
    const token = await signTicket(full, key, '1', now_s)
    expect(token.length).toBeLessThan(TICKET_CHARS_MAX)
    expect(await verifyTicket(token, keys, now_s)).toMatchObject({ ok: true, claims: full })
  })

  it('is valid until its lifetime and the clock tolerance are over, and not a second longer', async () => {
    const token = await signTicket(claims, key, '1', now_s)
    const last_s = now_s + TICKET_LIFETIME_S + TICKET_CLOCK_TOLERANCE_S - 1
    expect((await verifyTicket(token, keys, last_s)).ok).toBe(true)
    expect(await verifyTicket(token, keys, last_s + 1)).toEqual({ ok: false, reason: 'expired' })
  })

  it('is refused when any claim was altered', async () => {
    const token = await signTicket(claims, key, '1', now_s)
    const [header, payload, signature] = token.split('.') as [string, string, string]
    const altered = { ...JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/'))), settled_service_us: 0 }
    const forged = [header, btoa(JSON.stringify(altered)).replaceAll('=', ''), signature].join('.')
    expect(await verifyTicket(forged, keys, now_s)).toEqual({ ok: false, reason: 'bad_signature' })
  })

  it('is refused when another agent’s key signed it, and when its key id is unknown', async () => {
    const other = await importTicketKey(await deriveTicketKey('master', '1', 'eu-1'))
    expect(await verifyTicket(await signTicket(claims, other, '1', now_s), keys, now_s)).toEqual({
      ok: false,
      reason: 'bad_signature',
    })
    expect(await verifyTicket(await signTicket(claims, key, '2', now_s), keys, now_s)).toEqual({
      ok: false,
      reason: 'unknown_key',
    })
  })

  it('is refused without a signature algorithm, when it is no token, too long, or lacks a claim', async () => {
    const none = `${btoa('{"alg":"none"}').replaceAll('=', '')}.${btoa(JSON.stringify(claims)).replaceAll('=', '')}.`
    for (const bad of [none, 'nonsense', '', 'x'.repeat(TICKET_CHARS_MAX + 1)]) {
      expect(await verifyTicket(bad, keys, now_s)).toEqual({ ok: false, reason: 'malformed' })
    }
    const { engine: _, ...incomplete } = claims
    const token = await signTicket(incomplete as typeof claims, key, '1', now_s)
    expect(await verifyTicket(token, keys, now_s)).toEqual({ ok: false, reason: 'malformed' })
  })
})
