/**
 * What of a ticket goes into vLLM's body. With the plug-in: who the call is and what its program has cost, which the
 * plug-in trusts because only the agent can write these fields (request-body.ts); and what is expected of the call, by which
 * it decides about the program's KV while a tool runs. Without it, under vLLM's own priority
 * policy: `priority`, smaller first, which is the most that a gateway before a stock vLLM can do. In every case the salt
 * that keeps tenants' prefix caches apart.
 */
import { createHash } from 'node:crypto'
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { type TicketClaims, tokensText } from '../../../../../src/protocol/index.ts'
import type { ProgramKey } from '../../engine-front.ts'
import type { VllmAddress } from '../process/vllm-server.ts'
import type { Json } from './request-body.ts'

/** Above the service of any program: two weeks of one, in microseconds. vLLM takes 53 bits and more. */
const OFFLINE_PRIORITY = 2 ** 40

/** The plug-in rejects a whole ticket for a longer id. */
export const PROGRAM_CHARS_MAX = 512

/** `prompt_cache_key`: the client's. */
export function ticketFields(
  claims: TicketClaims,
  order: VllmAddress['order'],
  forecast?: CallForecast,
  prompt_cache_key: string = programKey(claims),
  resumed: readonly number[] = [],
): Json {
  if (order === 'none') return {}
  // OpenAI sends calls with one key where their prefix is cached. All tenants share the provider's key, so theirs are told apart,
  // and a digest says nothing of them.
  if (order === 'provider') return { prompt_cache_key: digest(`${claims.cache_salt}\n${prompt_cache_key}`) }
  // vLLM forbids some characters in a salt; a digest has none of them and is as unguessable.
  const cache_salt = digest(claims.cache_salt)
  if (order === 'fcfs') return { cache_salt }
  if (order === 'priority') {
    const attained_us = claims.settled_service_us + claims.open_elsewhere_us
    const priority = Math.round(attained_us / (claims.program_weight ?? 1))
    return { cache_salt, priority: claims.offline ? OFFLINE_PRIORITY + priority : priority }
  }
  const program = programKey(claims)
  return {
    cache_salt,
    session_id: program,
    vllm_xargs: {
      switchyard_lease: claims.lease,
      switchyard_tenant: claims.tenant,
      switchyard_weight: claims.tenant_weight,
      switchyard_program: program,
      switchyard_class: claims.class,
      switchyard_objective: claims.objective,
      switchyard_settled_service_us: claims.settled_service_us,
      switchyard_open_elsewhere_us: claims.open_elsewhere_us,
      switchyard_path_us: claims.critical_path_us,
      switchyard_wait_us: claims.program_wait_us,
      switchyard_output_tokens: claims.program_output_tokens,
      ...sequenceFields(claims.sequence),
      // A number, since truth values are not among the extra arguments of every version of vLLM.
      ...(claims.offline ? { switchyard_offline: 1 } : {}),
      ...(claims.program_weight === undefined ? {} : { switchyard_program_weight: claims.program_weight }),
      ...(forecast === undefined ? {} : { switchyard_forecast: forecastField(forecast) }),
      ...(resumed.length === 0 ? {} : { switchyard_resume: tokensText(resumed) }),
    },
  }
}

/** Two numbers, since lists are not among the extra arguments of every version of vLLM. */
function sequenceFields(sequence: TicketClaims['sequence']): Json {
  if (sequence === null) return {}
  const [opened_at_ms, tie] = sequence
  return { switchyard_opened_at_ms: opened_at_ms, switchyard_tie: tie }
}

/**
 * As JSON: output tokens, the tools that may follow as [probability, duration in us, answer tokens], the likeliest first, and the
 * confidence. Names of tools are not needed.
 */
function forecastField({ output_tokens, tool, alternatives = [], confidence }: CallForecast): string {
  const tools = tool === null ? [] : [tool, ...alternatives]
  const told = tools.map(({ probability, duration_us, answer_tokens }) => [probability, duration_us, answer_tokens])
  return JSON.stringify([output_tokens, told, confidence])
}

/** Unique over tenants and runs. */
export function programKey({ tenant, program, run }: ProgramKey): string {
  const key = JSON.stringify([tenant, program, run])
  return key.length <= PROGRAM_CHARS_MAX ? key : digest(key)
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
