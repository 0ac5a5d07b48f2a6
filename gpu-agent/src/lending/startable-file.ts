/**
 * The file of --startable: models for which this host can start engines while it is lent, and what the planner should expect of them. Every value is
 * checked before anything starts, with the same rules as the flags of the agent. A wrong one is answered with one sentence that names its place.
 */
import { readFileSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import { z } from 'zod'
import { STARTABLE_MODELS_MAX } from '../../../src/protocol/host.ts'
import { Id } from '../../../src/protocol/index.ts'
import { type LatencyProfile, PROFILE_NAMES, profileOf } from '../../engine/backends/emulated/profiles/index.ts'
import { CostsFile, type ModelCosts } from '../../planner/costs/model-costs.ts'
import { profileCosts } from '../../planner/costs/profile-costs.ts'
import { type EngineFlagValues, type FrontFlags, frontFlags } from '../engine-flags.ts'
import { messageOf } from '../events.ts'
import { WrongFlag } from '../flag-values.ts'
import { hasVllmFlag } from '../fronts/vllm/process/vllm-flags.ts'

const FILE_BYTES_MAX = 1024 * 1024
export const STARTABLE_KINDS = ['embedded', 'emulated', 'vllm'] as const
/** Those that follow from the GPUs that an engine is given, or from its plan, are not among them. */
const FLAGS: readonly string[] = [
  ...['model-path', 'context-tokens', 'seats', 'slots', 'hold-kv', 'prefill-chunk-tokens', 'system-prompt'],
  ...['temperature', 'top-p', 'model', 'vllm-args', 'vllm-python', 'kv-swap-gib', 'vllm-start-limit-s'],
]

const FileModel = z.strictObject({
  model: Id,
  engine: z.enum(STARTABLE_KINDS),
  /** Of the agent's command line, without dashes: model-path, context-tokens, vllm-args, … */
  flags: z.record(z.string(), z.union([z.string(), z.number()])).default({}),
  /** One for each number of GPUs that an engine may have. */
  plans: z
    .array(
      z.strictObject({
        gpus: z.int().min(1).max(64),
        /** A name, or a file that `npm run calibrate` wrote. */
        profile: z.string().min(1),
        loading_s: z.number().min(0).max(86_400),
      }),
    )
    .min(1)
    .max(16)
    .optional(),
  /** A table as of gpu-agent/planner/costs, in place of `plans`. */
  costs: z.string().min(1).optional(),
  /** The name that the table has for it. */
  costs_model: z.string().min(1).optional(),
  /** Of vLLM: what it was built for. On a CPU, shares of the cores stand for GPUs. */
  device: z.enum(['cuda', 'cpu']).default('cuda'),
})

const StartableFile = z.strictObject({ models: z.array(FileModel).min(1).max(STARTABLE_MODELS_MAX) })

/** A model for which engines can be started. */
export interface Startable {
  model: string
  engine: (typeof STARTABLE_KINDS)[number]
  front: FrontFlags
  /** A vLLM that was built for CPUs. */
  on_cpu: boolean
  /** By number of GPUs. */
  costs: ReadonlyMap<number, ModelCosts>
  /** By number of GPUs, of emulated engines: how they behave, and how long they take to load. */
  emulated: ReadonlyMap<number, { profile: string; loading_s: number }>
}

/** Throws WrongFlag. */
export function readStartable(file: string, env: Readonly<Record<string, string | undefined>>): Startable[] {
  const found = StartableFile.safeParse(jsonOf(file))
  if (!found.success) throw new WrongFlag(`--startable ${file}: ${firstIssue(found.error)}`)
  const names = found.data.models.map(({ model }) => model)
  const twice = names.find((name, at) => names.indexOf(name) < at)
  if (twice !== undefined) throw new WrongFlag(`--startable ${file}: the model ${twice} is there twice`)
  return found.data.models.map((model) => {
    try {
      return startableOf(model, dirname(resolve(file)), env)
    } catch (error) {
      if (error instanceof WrongFlag || error instanceof RangeError)
        throw new WrongFlag(`--startable ${file}, model ${model.model}: ${error.message}`)
      throw error
    }
  })
}

function startableOf(
  { model, engine, flags, plans, costs, costs_model = model, device }: z.infer<typeof FileModel>,
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): Startable {
  const unknown = Object.keys(flags).find((flag) => !FLAGS.includes(flag))
  if (unknown !== undefined) throw new WrongFlag(`"flags" has ${unknown}; it may have ${FLAGS.join(', ')}`)
  const values = Object.fromEntries(Object.entries(flags).map(([flag, value]) => [flag, String(value)]))
  const path = values['model-path']
  if (path !== undefined && !isAbsolute(path)) values['model-path'] = resolve(folder, path)
  const front = frontFlags(values as EngineFlagValues, engine, 1, env)
  const vllm = front.vllm?.mode === 'process' ? front.vllm : null
  if (vllm !== null && hasVllmFlag(vllm.args, 'tensor-parallel-size', 'tp', 'pipeline-parallel-size', 'pp'))
    throw new WrongFlag('"vllm-args" says over how many GPUs an engine is spread; the plan does, and the agent sets it')
  if ((plans === undefined) === (costs === undefined))
    throw new WrongFlag('it has either "plans" (profiles that npm run calibrate writes) or "costs" (a table)')
  if (engine === 'emulated' && plans === undefined)
    throw new WrongFlag('an emulated engine keeps to the profile of "plans"')
  const emulated = new Map<number, { profile: string; loading_s: number }>()
  const tables = new Map<number, ModelCosts>()
  for (const { gpus, profile, loading_s } of plans ?? []) {
    const name = isName(profile) ? profile : resolve(folder, profile)
    tables.set(gpus, profileCosts(model, gpus, sized(profileOf(name), front), loading_s))
    if (engine === 'emulated') emulated.set(gpus, { profile: name, loading_s })
  }
  for (const one of costs === undefined ? [] : tableOf(resolve(folder, costs), costs_model))
    tables.set(one.tp, { ...sizedCosts(one, front), model })
  return { model, engine, front, on_cpu: device === 'cpu', costs: tables, emulated }
}

/** A profile with the sizes that flags gave. */
function sized(profile: LatencyProfile, { seats, context_tokens }: FrontFlags): LatencyProfile {
  return { ...profile, seats: seats ?? profile.seats, slot_tokens_max: context_tokens ?? profile.slot_tokens_max }
}

/** A table with the sizes that flags gave. A table that was measured with fewer calls at a time says nothing of more. */
function sizedCosts(costs: ModelCosts, { seats, context_tokens }: FrontFlags): ModelCosts {
  const { engine, knots, max_model_tokens, kv_tokens } = costs
  const calls_max = knots.at(-1) ?? 1
  if (seats !== undefined && seats > calls_max)
    throw new WrongFlag(
      `"flags" has ${seats} seats, and its costs were measured with at most ${calls_max}. Measure again with --seats ${seats}`,
    )
  const longest = Math.min(context_tokens ?? max_model_tokens, kv_tokens)
  if (engine === undefined || seats === undefined) return { ...costs, max_model_tokens: longest }
  return { ...costs, max_model_tokens: longest, engine: { ...engine, seats } }
}

function tableOf(file: string, model: string): ModelCosts[] {
  const found = CostsFile.safeParse(jsonOf(file))
  if (!found.success) throw new WrongFlag(`"costs" ${file}: ${firstIssue(found.error)}`)
  const rows = found.data.models.filter((one) => one.model === model)
  if (rows.length > 0) return rows
  const names = [...new Set(found.data.models.map((one) => one.model))].join(', ')
  throw new WrongFlag(`"costs" ${file} has no table of ${model}; it has ${names}. Name one of them with "costs_model"`)
}

function isName(profile: string): boolean {
  return PROFILE_NAMES.some((name) => name === profile)
}

function jsonOf(file: string): unknown {
  try {
    const text = readFileSync(file, 'utf8')
    if (text.length > FILE_BYTES_MAX) throw new WrongFlag(`${file} has more than ${FILE_BYTES_MAX} bytes`)
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof WrongFlag) throw error
    if (error instanceof SyntaxError) throw new WrongFlag(`${file} is not JSON: ${error.message}`)
    throw new WrongFlag(`${file} cannot be read: ${messageOf(error)}`)
  }
}

function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues
  return `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`
}
