/**
 * Synthetic: nothing measured stands behind it. Agents that call a short tool again and again with a context that matters:
 * more contexts than KV holds are open in overload, and each is idle for half a second after every call. Made to show what
 * an engine loses that gives such contexts away.
 */
import type { ChainProfile, ChainStratum, Marginal } from './chain-profile.ts'
import { normalShare } from './normal-share.ts'

const CALLS = { min: 3, max: 14 }
const FIRST_PROMPT = { median: 2500, sigma: 0.2 }
const TOOL_ANSWER = { median: 100, sigma: 0.5 }
const OUTPUT = { median: 50, sigma: 0.4 }
const TOOL_SECONDS = { median: 0.5, sigma: 0.5 }

/** Step and end of the log-normal tables, in standard deviations. */
const Z_STEP = 0.125
const Z_MAX = 3

const ALIKE = { level: 0, neighbour: 0 }

export function shortTools(): ChainProfile {
  const output = logNormal(OUTPUT)
  const added = logNormal(TOOL_ANSWER)
  const stratum: ChainStratum = {
    name: 'all',
    share: 1,
    app: 'short-tools',
    app_prefix_tokens: 0,
    calls: uniform(CALLS),
    first_prompt_tokens: logNormal(FIRST_PROMPT),
    new_prompt_tokens: { tool: added, answer: added },
    output_tokens: { tool: output, answer: output, last: output },
    tool_seconds: logNormal(TOOL_SECONDS),
    tool_shares: { first: 1, tool: 1, answer: 1, last: 0 },
    tool_repeats: 0,
    tool: 'tool',
    tools: 1,
    persistence: { output: ALIKE, prompt: ALIKE, tool: ALIKE },
    correlation: [[1], [0, 1], [0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0, 1]],
  }
  return {
    shape: 'chains',
    workload: 'short-tools',
    provenance:
      `Synthetic. Chains of ${CALLS.min} to ${CALLS.max} calls, uniform; log-normal (median, sigma): first prompts ${FIRST_PROMPT.median} tokens, ` +
      `${FIRST_PROMPT.sigma}; what a tool returns ${TOOL_ANSWER.median} tokens, ${TOOL_ANSWER.sigma}; outputs ${OUTPUT.median} tokens, ${OUTPUT.sigma}; ` +
      `tools ${TOOL_SECONDS.median} s, ${TOOL_SECONDS.sigma}. All independent.`,
    prompt_tokens_max: 32768,
    strata: [stratum],
  }
}

function uniform({ min, max }: { min: number; max: number }): Marginal {
  const values = Array.from({ length: max - min + 1 }, (_, index) => min + index)
  return standard(
    values,
    values.map((_, index) => (index + 1) / values.length),
  )
}

function logNormal({ median, sigma }: { median: number; sigma: number }): Marginal {
  const z = Array.from({ length: (2 * Z_MAX) / Z_STEP + 1 }, (_, index) => -Z_MAX + index * Z_STEP)
  return standard(
    z.map((at) => median * Math.exp(sigma * at)),
    z.map((at) => (at === Z_MAX ? 1 : normalShare(at + Z_STEP / 2))),
  )
}

function standard(values: number[], cumulative: number[]): Marginal {
  return { table: { kind: 'values', values, cumulative }, mean: 0, sd: 1 }
}
