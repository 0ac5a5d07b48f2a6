/**
 * The figures of the policy benchmark as a file. Runs in it are not repeated, so that a long benchmark can be taken in
 * pieces. Every run of a file has the same parameters, and every run of a workload the same setting and measured capacity,
 * hence the same arrivals.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import { POLICIES_WORKLOADS, type PoliciesSetting } from './policies-settings.ts'
import { LABELS } from './workload.ts'

/** Of the file's shape. A file of another format is refused. */
export const FIGURES_FORMAT = 2

const Summary = z.object({ mean: z.number(), p50: z.number(), p95: z.number(), p99: z.number() })

const Run = z.object({
  workload: z.enum(POLICIES_WORKLOADS),
  /** The policy. */
  name: z.string(),
  seed: z.number().int(),
  program_token_latency_ms: Summary,
  program_token_latency_ms_by_kind: z.record(z.string(), z.number()),
  program_latency_s: Summary,
  makespan_s: z.number(),
  /** Summed duration of the engine's steps. */
  busy_s: z.number(),
  /** `busy_s` over the time in which programs arrived: what this policy made of the load. */
  offered_load: z.number(),
  /** Arrived and not ended: means over the thirds of the time in which programs arrived, and the most at once. */
  live_programs: z.object({
    first_third: z.number(),
    second_third: z.number(),
    last_third: z.number(),
    max: z.number(),
  }),
  preemptions: z.number(),
  swapped_out_tokens: z.number(),
  cached_prompt_share: z.number(),
  /** Means over the calls. */
  ttft_ms: z.number(),
  tpot_ms: z.number(),
})
export type Run = z.infer<typeof Run>

/** Measured with programs of the same kinds; `work_us_per_s` is nominal work (policies-runs.ts) a second. */
const Capacity = z.object({
  programs: z.number(),
  busy_s: z.number(),
  prefill_tokens_per_s: z.number(),
  work_us_per_s: z.number(),
})
export type Capacity = z.infer<typeof Capacity>

export const Parameters = z.object({
  model: z.string(),
  seats: z.number(),
  threads: z.number(),
  service: z.enum(['wall', 'modelled']),
  /** Absent: before there was a choice. */
  labels: z.enum(LABELS).default('workload'),
})
export type Parameters = z.infer<typeof Parameters>

const Setting: z.ZodType<PoliciesSetting> = z.object({
  workload: z.enum(POLICIES_WORKLOADS),
  programs: z.number(),
  load: z.number(),
  kv_tokens: z.number().nullable(),
  first_prompt_tokens: z.tuple([z.number(), z.number()]).nullable(),
  capacity_programs: z.number(),
  capacity_live_programs: z.number(),
  slots: z.number(),
  context_tokens: z.number(),
})

const Played = z.object({ setting: Setting, capacity: Capacity })
export type PlayedWorkload = z.infer<typeof Played>

const Figures = z.object({
  format: z.literal(FIGURES_FORMAT),
  parameters: Parameters,
  workloads: z.partialRecord(z.enum(POLICIES_WORKLOADS), Played),
  runs: z.array(Run),
})
export type Figures = z.infer<typeof Figures>

type FiguresResult = { ok: true; figures: Figures | null } | { ok: false; message: string }

/** The figures in `path`, null if there is no such file; they must be of `parameters` and of these settings. */
export function readFigures(path: string, parameters: Parameters, settings: readonly PoliciesSetting[]): FiguresResult {
  if (!existsSync(path)) return { ok: true, figures: null }
  const refused = (what: string): FiguresResult => ({ ok: false, message: `${path} ${what}; name another file` })
  let value: unknown
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    return refused(`cannot be read (${error instanceof Error ? error.message : String(error)})`)
  }
  const parsed = Figures.safeParse(value)
  if (!parsed.success) {
    const looksLike = z.object({
      parameters: z.unknown(),
      capacity: z.unknown().optional(),
      runs: z.array(z.unknown()),
    })
    if (!looksLike.safeParse(value).success) return refused('holds no figures of this benchmark')
    return refused(`was written by another version of this benchmark (format ${FIGURES_FORMAT} is read)`)
  }
  const { figures, difference } = { figures: parsed.data, difference: differenceOf(parsed.data, parameters, settings) }
  return difference === null ? { ok: true, figures } : refused(`has runs with ${difference}`)
}

/** Null: none. */
function differenceOf(figures: Figures, parameters: Parameters, settings: readonly PoliciesSetting[]): string | null {
  const pairs: [where: string, there: object, here: object][] = [['', figures.parameters, parameters]]
  for (const setting of settings) {
    const played = figures.workloads[setting.workload]
    if (played !== undefined) pairs.push([`${setting.workload}: `, played.setting, setting])
  }
  for (const [where, there, here] of pairs) {
    for (const [name, value] of Object.entries(here)) {
      const other: unknown = Reflect.get(there, name)
      const [was, is] = [JSON.stringify(other), JSON.stringify(value)]
      if (was !== is) return `${where}${name} ${was}, not ${is}`
    }
  }
  return null
}

/** Whole or not at all: a benchmark may be stopped at any time. */
export function writeFigures(path: string, figures: Figures & Record<string, unknown>): void {
  const partial = `${path}.partial`
  writeFileSync(partial, `${JSON.stringify(figures, null, 2)}\n`)
  renameSync(partial, path)
}
