/**
 * Programs that a running system has served, as its API gives them (GET /v1/trace), and what was measured of them. Programs of
 * another model than the one that is planned, and those that a profile's engines have no room for, are left out and counted.
 */
import * as z from 'zod'
import { quantile } from '../statistics.ts'
import { beyondContext } from '../workloads/context.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { resolvePrefixes } from '../workloads/resolve-prefixes.ts'
import type { Target } from './fleet-search.ts'

const Count = z.number().int().nonnegative()
const Seconds = z.number().nonnegative()

export const ServedProgram = z.object({
  id: z.string(),
  workload: z.string(),
  app_prefix_tokens: Count,
  arrival_seconds: Seconds,
  response_s: Seconds,
  output_tokens: Count,
  prompt_tokens: Count,
  cached_tokens: Count,
  engines: z.array(z.string()),
  models: z.array(z.string()),
  calls: z
    .array(
      z.object({
        ...{ thread: Count, parents: z.array(Count), prompt_tokens: Count, shared_prefix_tokens: Count },
        ...{ output_tokens: Count, tool: z.string().nullable(), tool_seconds: Seconds.nullable() },
      }),
    )
    .min(1),
})
export type ServedProgram = z.infer<typeof ServedProgram>

/** Of one tenant. */
export interface TenantPrograms {
  tenant: string
  /** Its share of seats, relative to the other tenants. */
  weight: number
  programs: readonly ServedProgram[]
}

export interface Served {
  programs: number
  calls: number
  /** From the first arrival to the last. */
  span_s: number
  output_tokens: number
  cached_prompt_share: number
  /** Engines that served them. */
  engines: number
  /** As measured here, in the target's unit. */
  p95: number
}

/** Models by how many programs called them, the most called first. */
export function modelsOf(tenants: readonly TenantPrograms[]): string[] {
  const counts = new Map<string, number>()
  for (const { models } of all(tenants)) for (const model of models) counts.set(model, (counts.get(model) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a).map(([model]) => model)
}

/** Those whose calls are all of this model. */
export function ofModel(tenants: readonly TenantPrograms[], model: string): TenantPrograms[] {
  return kept(tenants, ({ models }) => models.every((one) => one === model))
}

/** Those whose every call has room. */
export function within(tenants: readonly TenantPrograms[], context_tokens: number): TenantPrograms[] {
  return kept(tenants, (program) => beyondContext(asWorkload('', program), context_tokens) === null)
}

export function countOf(tenants: readonly TenantPrograms[]): number {
  return all(tenants).length
}

/** `tenants` have at least one program. */
export function served(tenants: readonly TenantPrograms[], { measure }: Target): Served {
  const programs = all(tenants)
  const arrivals_s = programs.map(({ arrival_seconds }) => arrival_seconds)
  const sum = (of: (one: ServedProgram) => number) => programs.reduce((total, one) => total + of(one), 0)
  const p95 = quantile(
    programs.map(({ response_s, output_tokens }) =>
      measure === 'program_s' ? response_s : (response_s * 1000) / Math.max(1, output_tokens),
    ),
    0.95,
  )
  const prompt_tokens = sum((one) => one.prompt_tokens)
  return {
    ...{ programs: programs.length, calls: sum(({ calls }) => calls.length), p95 },
    span_s: most(arrivals_s) - arrivals_s.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY),
    output_tokens: sum((one) => one.output_tokens),
    cached_prompt_share: prompt_tokens === 0 ? 0 : sum((one) => one.cached_tokens) / prompt_tokens,
    engines: new Set(programs.flatMap(({ engines }) => engines)).size,
  }
}

/** By arrival. */
export function workloadOf(tenants: readonly TenantPrograms[]): WorkloadProgram[] {
  return tenants
    .flatMap(({ tenant, programs }) => programs.map((program) => asWorkload(tenant, program)))
    .sort((a, b) => (a.arrival_seconds ?? 0) - (b.arrival_seconds ?? 0))
}

function asWorkload(tenant: string, program: ServedProgram): WorkloadProgram {
  const { id, workload, app_prefix_tokens, arrival_seconds, calls } = program
  return {
    ...{ id, workload, app_prefix_tokens, arrival_seconds, calls: resolvePrefixes(calls) },
    client: { tenant },
  }
}

function kept(tenants: readonly TenantPrograms[], keep: (program: ServedProgram) => boolean): TenantPrograms[] {
  return tenants
    .map(({ programs, ...tenant }) => ({ ...tenant, programs: programs.filter(keep) }))
    .filter(({ programs }) => programs.length > 0)
}

function all(tenants: readonly TenantPrograms[]): ServedProgram[] {
  return tenants.flatMap(({ programs }) => programs)
}

function most(values: readonly number[]): number {
  return values.reduce((largest, value) => Math.max(largest, value), Number.NEGATIVE_INFINITY)
}
