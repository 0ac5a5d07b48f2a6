/**
 * Writes the planner's cost tables from logged iterations, and says how far they are from iterations that the fit has not seen:
 *
 *   node simulator/planner/derive-costs.ts LOG.csv [--json FILE]     model,tp,phase,seq_num,max_seqlen,total_tokens,exec_s,sample_s,prep_input_s
 *
 * Models without a log, and all models on eight GPUs, are transferred (transfer-costs.ts) and labelled so.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { ModelCosts } from '../../gpu-agent/planner/costs/model-costs.ts'
import { OUTPUT_LENGTHS } from '../../gpu-agent/planner/lengths/model-lengths.ts'
import { BLOCK_TOKENS, capacityBlocks } from '../engines/derive-profile.ts'
import { loggedEngines } from '../engines/logged-engines.ts'
import {
  activeElements,
  CODELLAMA_34B,
  LLAMA_2_70B,
  LOGGED_MODELS,
  MISTRAL_7B,
  type ModelShape,
  STABLELM_7B,
} from '../engines/model-shapes.ts'
import { type FitError, fitError } from '../fit/least-squares.ts'
import { mean } from '../statistics.ts'
import { fitPhase, iterationUs, KNOTS } from './fit-costs.ts'
import { type Iteration, readIterations } from './iteration-log.ts'
import { LOADING_PER_REPLICA_S, LOADING_S } from './loading-times.ts'
import { fromOtherShapes, onEightGpus } from './transfer-costs.ts'

const OUT = new URL('../../gpu-agent/planner/costs/a100-costs.json', import.meta.url)
const HELD_OUT_EVERY = 5
const TENSOR_DEGREES = [1, 2, 4, 8] as const
/** Tokens that a model without a length table takes. */
const MODEL_TOKENS: Readonly<Record<string, number>> = { 'stablelm-tuned-alpha-7b': 4096 }

/** Models without a log: the one of equal shape that has one, or their own shape. */
const UNLOGGED: Readonly<Record<string, string | ModelShape>> = {
  'WizardLM-13B-V1.2': 'vicuna-13b-v1.5',
  'Mixtral-8x7B-Instruct-v0.1': 'Mixtral-8x7B-v0.1',
  'Llama-2-70b-chat-hf': LLAMA_2_70B,
  'CodeLlama-34b-Instruct-hf': CODELLAMA_34B,
  'Mistral-7B-Instruct-v0.2': MISTRAL_7B,
  'stablelm-tuned-alpha-7b': STABLELM_7B,
}

type Phases = Pick<ModelCosts, 'prefill' | 'decode'>
type Errors = { prefill: FitError; decode: FitError }
interface Fit extends Phases {
  errors: Errors
}

function fitOf(shape: ModelShape, tp: number, rows: readonly Iteration[]): Fit {
  const sizes = sizesOf(shape, tp)
  const phases = (used: readonly Iteration[]): Phases => ({
    prefill: fitPhase(
      sizes,
      used.filter(({ phase }) => phase === 'prefill'),
    ),
    decode: fitPhase(
      sizes,
      used.filter(({ phase }) => phase === 'decode'),
    ),
  })
  const seen = phases(rows.filter((_, at) => at % HELD_OUT_EVERY !== 0))
  const held_out = rows.filter((_, at) => at % HELD_OUT_EVERY === 0)
  return { ...phases(rows), errors: errorsOf(shape, tp, seen, held_out) }
}

function errorsOf(shape: ModelShape, tp: number, phases: Phases, rows: readonly Iteration[]): Errors {
  const costs = { ...phases, ...sizesOf(shape, tp), knots: [...KNOTS] }
  const of = (phase: 'prefill' | 'decode') =>
    fitError(
      rows
        .filter((row) => row.phase === phase)
        .map((row) => ({
          predicted: iterationUs(costs, row),
          measured: row.compute_us + row.prepare_us + row.sample_us,
        })),
    )
  return { prefill: of('prefill'), decode: of('decode') }
}

function sizesOf(shape: ModelShape, tp: number) {
  return { elements: activeElements(shape), layers: shape.layers, hidden: shape.hidden, tp }
}

function shapeOf(model: string): ModelShape {
  const unlogged = UNLOGGED[model]
  const shape = typeof unlogged === 'object' ? unlogged : LOGGED_MODELS[unlogged ?? model]
  if (shape === undefined) throw new RangeError(`the shape of ${model} is missing in model-shapes.ts`)
  return shape
}

const percent = (error: FitError) => Number(error.mean_abs_percent.toFixed(2))

/** `fit` of (model, tp); the mean error of models that were predicted from the others. */
function costsOf(model: string, tp: number, fits: ReadonlyMap<string, Fit>, left_out: Errors): ModelCosts | null {
  const shape = shapeOf(model)
  const kv_tokens = capacityBlocks(shape, tp) * BLOCK_TOKENS
  const loading_s = LOADING_S[model]?.[Math.min(tp, 4)]
  const max_model_tokens = MODEL_TOKENS[model] ?? OUTPUT_LENGTHS[model]?.max_model_tokens
  if (loading_s === undefined || max_model_tokens === undefined || kv_tokens < max_model_tokens) return null
  const like = UNLOGGED[model]
  const alike = typeof like === 'string' ? like : model
  const fitOn = (degree: number) => fits.get(`${alike} ${degree}`)
  const [own, two, four] = [fitOn(tp), fitOn(2), fitOn(4)]
  const loading = { loading_s, loading_per_replica_s: LOADING_PER_REPLICA_S }
  const common = { model, ...sizesOf(shape, tp), max_model_tokens, kv_tokens, ...loading, knots: [...KNOTS] }
  const transferred = {
    ...common,
    basis: 'transferred' as const,
    error_percent: { prefill: percent(left_out.prefill), decode: percent(left_out.decode) },
  }
  if (own !== undefined) {
    const error_percent = { prefill: percent(own.errors.prefill), decode: percent(own.errors.decode) }
    const basis = alike === model ? ('fitted' as const) : ('transferred' as const)
    return { ...common, basis, error_percent, prefill: own.prefill, decode: own.decode }
  }
  if (tp === 8 && two !== undefined && four !== undefined) return { ...transferred, ...onEightGpus(two, four) }
  return { ...transferred, ...fromOtherShapes(loggedEngines(), shape, tp) }
}

function main(file: string, json: string | undefined): void {
  const rows = Map.groupBy(readIterations(readFileSync(file, 'utf8')), ({ model, tp }) => `${model} ${tp}`)
  const fits = new Map<string, Fit>()
  const left_out: Errors[] = []
  for (const [name, engine_rows] of rows) {
    const [{ model, tp }] = engine_rows as [Iteration]
    const shape = shapeOf(model)
    fits.set(name, fitOf(shape, tp, engine_rows))
    if (shape.alibi || shape.experts.total > 1) continue
    const others = loggedEngines().filter((engine) => engine.shape.family !== shape.family)
    left_out.push(errorsOf(shape, tp, fromOtherShapes(others, shape, tp), engine_rows))
  }
  const mean_left_out = meanError(left_out)
  const models = Object.keys(LOADING_S).flatMap((model) =>
    TENSOR_DEGREES.flatMap((tp) => costsOf(model, tp, fits, mean_left_out) ?? []),
  )
  writeFileSync(OUT, `${JSON.stringify({ provenance: provenance(fits, mean_left_out), models })}\n`)
  report(fits, mean_left_out, json)
}

function meanError(errors: readonly Errors[]): Errors {
  const of = (phase: 'prefill' | 'decode'): FitError => ({
    rows: errors.reduce((sum, one) => sum + one[phase].rows, 0),
    mean_abs_percent: mean(errors.map((one) => one[phase].mean_abs_percent)),
    p95_abs_percent: mean(errors.map((one) => one[phase].p95_abs_percent)),
  })
  return { prefill: of('prefill'), decode: of('decode') }
}

function provenance(fits: ReadonlyMap<string, Fit>, left_out: Errors): string {
  const held = meanError(Array.from(fits.values(), ({ errors }) => errors))
  const figures = ({ prefill, decode }: Errors) =>
    `${percent(prefill)} % of a prefill and ${percent(decode)} % of a decode iteration`
  return (
    `Iterations of ${fits.size} engines on A100-80GB with vLLM, logged by the SamuLLM authors (puddingfjz/vllm @ de1677dc, benchmarks/Cost_Model_per_iter, ` +
    'Apache-2.0; 900 iterations each), fitted by simulator/planner/derive-costs.ts. Mean error on every fifth row, which the fit has not seen: ' +
    `${figures(held)}. Of models predicted from the others (basis: transferred): ${figures(left_out)}. Loading: simulator/planner/loading-times.ts; ` +
    'on eight GPUs that of four. KV: 90 % of 79.15 GiB a GPU, less weights in 16 bits and 4 GiB of activations.'
  )
}

function report(fits: ReadonlyMap<string, Fit>, left_out: Errors, json: string | undefined): void {
  for (const [name, { errors }] of fits)
    console.log(`${name}: held-out rows ${percent(errors.prefill)} % prefill, ${percent(errors.decode)} % decode`)
  console.log(provenance(fits, left_out))
  if (json === undefined) return
  const held_out = Object.fromEntries(Array.from(fits, ([name, { errors }]) => [name, errors]))
  writeFileSync(json, `${JSON.stringify({ held_out, models_left_out: left_out }, null, 2)}\n`)
}

const [file, flag, json] = process.argv.slice(2)
if (file === undefined || (flag !== undefined && (flag !== '--json' || json === undefined))) {
  console.error('usage: node simulator/planner/derive-costs.ts LOG.csv [--json FILE]')
  process.exit(2)
}
main(file, json)
