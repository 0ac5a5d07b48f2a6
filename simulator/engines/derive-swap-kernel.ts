/**
 * Cost models of swap kernels, from measured copies (docs/kv-swap/h100.json, written by `npm run bench:swap`).
 *
 * What a swap takes from the engine's steps: the time that the next forward pass waits, and what decoding loses while the
 * copy goes on beside it (its measured slowdown, for as long as the copy takes beyond that wait). Both grow with the tokens.
 * The model is a base for each direction alike and a cost for each token, by least squares of relative errors over calls of
 * 1,024 to 8,192 tokens: Llama-3-8B, layout LBHNC, blocks of 16 tokens. Larger calls do not fit into the staging ring.
 *
 * It assumes that the link has room for what is copied beside steps. `link_us_per_token` tells how much of it that takes.
 */
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import type { SwapCosts } from '../../gpu-agent/engine/types.ts'
import { fitError, fitNonNegative, predict, type Sample } from '../fit/least-squares.ts'

export const MEASURED_FILE = 'docs/kv-swap/h100.json'
const SHAPE = 'llama-3-8b'
const LAYOUT = 'LBHNC'
const BLOCK_TOKENS = 16
const TOKENS_MAX = 8192
/** By the method of the measurement. */
const METHODS = {
  'copy-per-block': 'copy-per-block-and-layer',
  'batch-copy': 'batch-copy',
  gather: 'staged-triton',
} as const
const US_PER_MS = 1000
const DIGITS = 4

export interface SwapKernel {
  /** Where the figures come from. */
  provenance: string
  swap_costs: SwapCosts
  /** What a token takes of the link, each way. */
  link_us_per_token: number
}

const Case = z.object({
  shape: z.string(),
  layout: z.string(),
  block_tokens: z.number(),
  tokens: z.number(),
  calls: z.number(),
  direction: z.enum(['out', 'in']),
  method: z.string(),
  compute_stream_ms: z.number(),
  done_ms: z.number(),
  decode_slowdown: z.number(),
})
type Case = z.infer<typeof Case>

const Measured = z.object({
  measured_at: z.string(),
  command: z.string(),
  meaningful: z.literal(true),
  device: z.looseObject({ name: z.string() }),
  cases: z.array(Case),
})

export function derivedKernels(file = MEASURED_FILE): Record<keyof typeof METHODS, SwapKernel> {
  const measured = Measured.parse(JSON.parse(readFileSync(file, 'utf8')))
  const source = `${measured.device.name}, ${measured.measured_at.slice(0, 10)}, \`${measured.command}\` (${file})`
  const kernelOf = (method: string) => derived(casesOf(measured.cases, method), method, source)
  return {
    'copy-per-block': kernelOf(METHODS['copy-per-block']),
    'batch-copy': kernelOf(METHODS['batch-copy']),
    gather: kernelOf(METHODS.gather),
  }
}

function casesOf(cases: readonly Case[], method: string): Case[] {
  return cases.filter(
    (one) =>
      one.method === method &&
      one.shape === SHAPE &&
      one.layout === LAYOUT &&
      one.block_tokens === BLOCK_TOKENS &&
      one.calls === 1 &&
      one.tokens <= TOKENS_MAX,
  )
}

function derived(cases: readonly Case[], method: string, source: string): SwapKernel {
  const samples = cases.map((one): Sample => {
    const out = one.direction === 'out' ? one.tokens : 0
    return { features: [1, out, one.tokens - out], measured: stepsLoseUs(one) }
  })
  const [base_us = 0, save_us_per_token = 0, restore_us_per_token = 0] = fitNonNegative(samples, 3).map(rounded)
  const coefficients = [base_us, save_us_per_token, restore_us_per_token]
  const { rows, mean_abs_percent } = fitError(
    samples.map(({ features, measured }) => ({ predicted: predict(coefficients, features), measured })),
  )
  const largest = cases.filter(({ tokens }) => tokens === TOKENS_MAX)
  const link_us = largest.reduce((sum, { done_ms }) => sum + (done_ms * US_PER_MS) / TOKENS_MAX, 0) / largest.length
  return {
    provenance: `${method}: ${source}. Fitted to ${rows} measurements, mean error ${mean_abs_percent.toFixed(1)} %.`,
    swap_costs: { save_us_per_token, restore_us_per_token, base_us },
    link_us_per_token: rounded(link_us),
  }
}

/** What steps lose to one transfer. */
function stepsLoseUs({ compute_stream_ms, done_ms, decode_slowdown }: Case): number {
  const beside_ms = Math.max(0, done_ms - compute_stream_ms)
  return (compute_stream_ms + decode_slowdown * beside_ms) * US_PER_MS
}

function rounded(value: number): number {
  return Number(value.toPrecision(DIGITS))
}
