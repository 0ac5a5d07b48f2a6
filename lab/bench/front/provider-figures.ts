/** What a run of agents at a provider with rate limits came to. */

import type { ProviderCall } from '../../../gpu-agent/src/fronts/attached/testing/provider/scripted-provider.ts'
import { type Summary, summary } from '../../../simulator/statistics.ts'
import type { AgentRun } from './agents.ts'

/** The last programs make their calls one after the other, and cannot use a quota. */
const MEASURED = 0.9

export interface ProviderFigures {
  arm: string
  seed: number
  programs: number
  finished: number
  /** Of programs that did not finish. */
  wasted_tokens: number
  /** Of finished programs, from the common start. */
  completion_s: Summary
  makespan_s: number
  /** Requests that the provider refused, and those that it took in. */
  refused: number
  admitted: number
  /** Of the limit that is used most, up to when MEASURED of the calls had been taken in; a bucket's first filling counts as quota. */
  quota_share: number
  errors: string[]
}

export interface QuotaLimits {
  requests: number
  tokens: number
  per_s: number
}

export function providerFigures(
  { arm, seed }: { arm: string; seed: number },
  runs: readonly AgentRun[],
  calls: readonly ProviderCall[],
  limits: QuotaLimits,
): ProviderFigures {
  const finished = runs.filter((run) => run.finished)
  const lost = runs.filter((run) => !run.finished)
  const admitted = calls.filter(({ status }) => status === 200)
  return {
    ...{ arm, seed, programs: runs.length, finished: finished.length },
    wasted_tokens: lost.reduce((sum, { tokens }) => sum + tokens, 0),
    completion_s: summary(finished.map(({ completion_s }) => completion_s)),
    makespan_s: Math.max(...runs.map(({ completion_s }) => completion_s)),
    refused: calls.length - admitted.length,
    admitted: admitted.length,
    quota_share: quotaShare(admitted, limits),
    errors: [...new Set(lost.map(({ error }) => error ?? ''))].slice(0, 5),
  }
}

export function quotaShare(
  admitted: readonly Pick<ProviderCall, 'at_s' | 'prompt_tokens' | 'body'>[],
  { requests, tokens, per_s }: QuotaLimits,
): number {
  const measured = [...admitted].sort((a, b) => a.at_s - b.at_s).slice(0, Math.ceil(admitted.length * MEASURED))
  const span_s = (measured.at(-1)?.at_s ?? 0) - (measured[0]?.at_s ?? 0)
  const fillings = 1 + span_s / per_s
  const taken = measured.reduce((sum, { prompt_tokens, body }) => sum + prompt_tokens + Number(body.max_tokens ?? 0), 0)
  return Math.max(measured.length / (requests * fillings), taken / (tokens * fillings))
}
