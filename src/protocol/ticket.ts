/**
 * The ticket: a short-lived HMAC JWT (HS256) that authorises one call on one engine of one agent.
 * An agent serves no call without one. The control plane signs with a key that it derives per agent; the agent
 * receives its keys in `welcome` (link.ts). The ticket contains everything that the engine's scheduler
 * reads, so nothing that a client sends reaches the scheduler.
 */
import { errors, jwtVerify, SignJWT } from 'jose'
import { z } from 'zod'
import { Count, Id, Microseconds } from './ids.ts'
import { Objective } from './objective.ts'
import { ProgramSource } from './program-source.ts'
import { PROGRAM_WEIGHT_PRODUCT_MAX } from './program-weight.ts'
import { ToolName } from './tools.ts'

export const TICKET_VERSION = 2
/** A ticket must reach its engine within this time; the call itself may run longer. */
export const TICKET_LIFETIME_S = 60
/** Clocks of Worker and agent may differ by this much. The agent also corrects by the offset measured in `welcome`. */
export const TICKET_CLOCK_TOLERANCE_S = 30
export const TICKET_CHARS_MAX = 4096

/** The most that the call may use of its program's budget. What is left out is not limited. */
const BudgetCap = z.object({
  tokens: Count.optional(),
  service_us: Microseconds.optional(),
  cost_nanos: Count.optional(),
  /** With `cost_nanos`: per token, in trillionths of the operator's currency. */
  prices: z
    .object({
      prompt_picos: z.number().nonnegative(),
      cached_prompt_picos: z.number().nonnegative(),
      output_picos: z.number().nonnegative(),
    })
    .optional(),
  /** From the ticket to the program's deadline. */
  ends_in_ms: Count.optional(),
})

export const TicketClaims = z.object({
  v: z.literal(TICKET_VERSION),
  tenant: Id,
  /** The client's program id, or the call id of a call that names no program. */
  program: Id,
  /** Which run of that program id; a call under an ended id opens a new run. */
  run: Id,
  thread: Id,
  call: Id,
  lease: Id,
  agent: Id,
  engine: Id,
  epoch: Id,
  region: Id,
  model: Id,
  /** Class of the program: tenant + app label, else a fingerprint of system prompt and tools, else the tenant. */
  class: Id,
  /** Weight of the tenant's share of seats, set by the operator. */
  tenant_weight: z.number().positive().max(1000),
  /** What the program weighs among those of its tenant: its own weight times its class's. Left out: 1. */
  program_weight: z.number().positive().max(PROGRAM_WEIGHT_PRODUCT_MAX).optional(),
  /** The call belongs to a batch: it ranks below every call that does not. */
  offline: z.literal(true).optional(),
  /** What a learned order makes small for the tenant's programs, set by the operator for the tenant or the model. */
  objective: Objective.default('token_latency'),
  /**
   * The program's place among those of its tenant: when its run opened (ms) and a 32-bit hash of the run, compared as a pair.
   * It stays the same on every engine. A call without a program, or whose program could not be asked in time, has its own.
   * Null: the engine goes by arrival.
   */
  sequence: z
    .tuple([Count, Count.max(2 ** 32 - 1)])
    .readonly()
    .nullable(),
  /** Service of the program's settled leases at admission, in the pool's ordering reading (PLAS, Autellix eq. 1). */
  settled_service_us: Microseconds,
  /** Charges last reported for the program's open leases on other engines than this ticket's, in the same reading. */
  open_elsewhere_us: Microseconds,
  /** Longest observed critical path of the program at admission (ATLAS, Autellix eq. 2 as the scalar). */
  critical_path_us: Microseconds,
  /** Summed wait of the program at admission, for anti-starvation. */
  program_wait_us: Microseconds,
  /** Output tokens of the program's settled leases at admission. */
  program_output_tokens: Count,
  // What the call's forecast goes by. Left out where the control plane does not know.
  /** Calls of the run before this one. */
  position: Count.optional(),
  /** The tool behind the call that this one goes on from. */
  last_tool: ToolName.optional(),
  /** The client's hint of how long the tool after this call takes (core/tools/tool-hint.ts). */
  expect_tool_us: Microseconds.optional(),
  budget: BudgetCap.optional(),
  /** The body says where the call goes on from (resume.ts). */
  resumes: z.literal(true).optional(),
  /** Why the call belongs to its program, for the usage that its client sees. */
  source: ProgramSource.optional(),
  /** Says that the control plane granted this lease; the record carries it back (record.ts). */
  lease_proof: z.string().max(64).optional(),
  /** Isolates the prefix cache: equal for calls of one tenant, unguessable from outside. */
  cache_salt: Id,
  iat: Count,
  exp: Count,
})
export type TicketClaims = z.infer<typeof TicketClaims>

export type TicketRefusal = 'malformed' | 'bad_signature' | 'expired' | 'unknown_key'
export type TicketVerdict = { ok: true; claims: TicketClaims } | { ok: false; reason: TicketRefusal }

/** Signs `claims`; `iat` and `exp` come from `now_s` (seconds since the epoch). */
export async function signTicket(
  claims: Omit<TicketClaims, 'iat' | 'exp' | 'v'>,
  key: CryptoKey,
  kid: string,
  now_s: number,
): Promise<string> {
  const iat = Math.floor(now_s)
  return new SignJWT({ ...claims, v: TICKET_VERSION, iat, exp: iat + TICKET_LIFETIME_S })
    .setProtectedHeader({ alg: 'HS256', kid })
    .sign(key)
}

/** Verifies signature, lifetime and shape. The caller still checks agent, engine, epoch and that the lease is unused. */
export async function verifyTicket(
  token: string,
  keys: ReadonlyMap<string, CryptoKey>,
  now_s: number,
): Promise<TicketVerdict> {
  if (token.length > TICKET_CHARS_MAX) return { ok: false, reason: 'malformed' }
  let unknownKey = false
  try {
    const { payload } = await jwtVerify(
      token,
      async ({ kid }) => {
        const key = keys.get(kid ?? '')
        if (key === undefined) {
          unknownKey = true
          throw new errors.JWSSignatureVerificationFailed('no such key')
        }
        return key
      },
      {
        algorithms: ['HS256'],
        currentDate: new Date(now_s * 1000),
        clockTolerance: TICKET_CLOCK_TOLERANCE_S,
      },
    )
    const claims = TicketClaims.safeParse(payload)
    return claims.success ? { ok: true, claims: claims.data } : { ok: false, reason: 'malformed' }
  } catch (error) {
    if (unknownKey) return { ok: false, reason: 'unknown_key' }
    if (error instanceof errors.JWTExpired) return { ok: false, reason: 'expired' }
    if (error instanceof errors.JWSSignatureVerificationFailed) return { ok: false, reason: 'bad_signature' }
    if (error instanceof errors.JOSEError) return { ok: false, reason: 'malformed' }
    throw error
  }
}

/** The ticket key of one agent under one master secret: HMAC-SHA256(master, "ticket:" + kid + ":" + agent). 32 bytes. */
export async function deriveTicketKey(masterSecret: string, kid: string, agent: string): Promise<Uint8Array> {
  const encoder = new TextEncoder()
  const master = await crypto.subtle.importKey(
    'raw',
    encoder.encode(masterSecret),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['sign'],
  )
  return new Uint8Array(await crypto.subtle.sign('HMAC', master, encoder.encode(`ticket:${kid}:${agent}`)))
}

/** Imports the 32 bytes of `deriveTicketKey` for `signTicket` and `verifyTicket`. */
export function importTicketKey(bytes: Uint8Array): Promise<CryptoKey> {
  return crypto.subtle.importKey('raw', bytes as BufferSource, { name: 'HMAC', hash: 'SHA-256' }, false, [
    'sign',
    'verify',
  ])
}
