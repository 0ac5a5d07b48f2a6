/**
 * How far estimates are from runs whose outputs have another origin than the planner's tables. Outputs drawn from the same tables agree by construction;
 * that row is labelled self-consistent and proves nothing about the tables.
 */

import {
  drawOutputTokens,
  type LengthTable,
  lengthTable,
  lengthTableOf,
} from '../../../gpu-agent/planner/lengths/length-table.ts'
import { GUESSED_LENGTHS, lengthsOf } from '../../../gpu-agent/planner/lengths/model-lengths.ts'
import type { Workload } from '../../../gpu-agent/planner/workload.ts'
import type { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { chainSummary, ensembling, oneModel, routing, shareGpt } from '../../planner/paper/applications.ts'
import INPUTS from '../../planner/paper/inputs.json' with { type: 'json' }
import OWN from '../../planner/paper/own-lengths.json' with { type: 'json' }
import { seededRandom } from '../../random.ts'
import { type Lengths, playPlanner, workloadOf } from './play-cell.ts'

export interface LengthOrigin {
  name: string
  application: (seed: number) => ApplicationTokens
  /** What the outputs of the real run have. */
  truth: (file: ApplicationTokens, seed: number) => Workload
  /** The lengths that the planner draws. Left out: those of its tables. */
  planned?: (seed: number) => Lengths
}

/** BooookScore's final summaries at 2,048 tokens, by four models: 484 (gpt-3.5), 805 (gpt-4), 558 (Mixtral), 657 (Claude) tokens. */
const FINAL_SUMMARY_TOKENS = 626
const REQUESTS = 1000
const LIMIT = 512
/** Share of a length's rank that its prompt decides, where the two are correlated. */
const CORRELATED_SHARE = 0.7
/** Limits of the shipped model's answers in `npm run bench:lengths`. It has no step times on an A100, so another model lends its own. */
const OWN_MODEL_TOKENS = 2048
const OWN_LIMIT_TOKENS = 500
const OWN_STEP_TIMES = 'chatglm3-6b'
const OWN_LEARNED_ANSWERS = 24
const OWN_REQUESTS = 10_000

const redrawn = (lengths: Lengths) => (file: ApplicationTokens, seed: number) =>
  workloadOf(file, lengths, seed * 10 + 5)
const scaled =
  (factor: number): Lengths =>
  (model) => {
    const table = lengthsOf(model)
    return table === undefined ? undefined : times(table, factor)
  }

export const LENGTH_ORIGINS: readonly LengthOrigin[] = [
  {
    name: 'the same tables (self-consistent)',
    application: (seed) => ensembling(REQUESTS, LIMIT, { seed }),
    truth: redrawn(lengthsOf),
  },
  {
    name: 'mean 25 % longer',
    application: (seed) => ensembling(REQUESTS, LIMIT, { seed }),
    truth: redrawn(scaled(1.25)),
  },
  {
    name: 'mean 25 % shorter',
    application: (seed) => ensembling(REQUESTS, LIMIT, { seed }),
    truth: redrawn(scaled(0.75)),
  },
  {
    name: 'correlated with the prompt',
    application: (seed) => ensembling(REQUESTS, LIMIT, { seed }),
    truth: correlated,
  },
  {
    name: 'Mixtral on GSM8K, real outputs',
    application: (seed) => onlyMixtral(routing({ known_lengths: false, seed })),
    truth: redrawn(() => measured(INPUTS.tables.mixtral_gsm8k_output, 32_768)),
  },
  {
    name: 'ShareGPT, outputs in the conversations',
    application: (seed) => shareGpt('vicuna-13b-v1.5', REQUESTS, { seed }),
    truth: redrawn(() => measured(INPUTS.tables.sharegpt_output, 4096)),
  },
  {
    name: `${OWN.model} on the embedded engine, planned with ${OWN_LEARNED_ANSWERS} of its answers`,
    application: ownApplication,
    truth: redrawn(ownLengths),
    planned: (seed) => {
      const random = seededRandom(seed * 10 + 7)
      const limits = { input_tokens: 1, max_output_tokens: Number.POSITIVE_INFINITY }
      const seen = Array.from({ length: OWN_LEARNED_ANSWERS }, () => drawOutputTokens(ownLengths(), limits, random))
      return () => lengthTableOf(seen, OWN_MODEL_TOKENS)
    },
  },
  {
    name: `${OWN.model} on the embedded engine, planned with lengths of other models`,
    application: ownApplication,
    truth: redrawn(ownLengths),
    planned: () => () => GUESSED_LENGTHS,
  },
  {
    name: `chain summary, summaries of ${FINAL_SUMMARY_TOKENS} tokens as in BooookScore`,
    application: (seed) => chainSummary(100, 4, 900, { seed }),
    truth: redrawn((model) =>
      model.startsWith('vicuna') ? times(lengthsOf(model), FINAL_SUMMARY_TOKENS / 208) : lengthsOf(model),
    ),
  },
]

export function estimateOf(origin: LengthOrigin, seed: number): { estimated_s: number; real_s: number } {
  const file = origin.application(seed)
  const planned = workloadOf(file, origin.planned?.(seed) ?? lengthsOf, seed * 10 + 1)
  return playPlanner('ours', planned, origin.truth(file, seed))
}

function ownLengths(): LengthTable {
  return measured(OWN.tables.output, OWN_MODEL_TOKENS)
}

function ownApplication(seed: number): ApplicationTokens {
  const of = {
    model: OWN_STEP_TIMES,
    quantiles: OWN.tables.input.quantiles,
    requests: OWN_REQUESTS,
    limit_tokens: OWN_LIMIT_TOKENS,
  }
  return oneModel(OWN.model, of, { seed })
}

function times(table: LengthTable | undefined, factor: number): LengthTable {
  if (table === undefined) throw new RangeError('there are lengths of it')
  const quantiles = table.quantiles.map((one) => Math.max(1, Math.min(table.max_model_tokens, one * factor)))
  return { ...table, quantiles, mean_tokens: table.mean_tokens * factor }
}

function measured({ quantiles, mean }: { quantiles: number[]; mean: number }, max_model_tokens: number): LengthTable {
  return lengthTable(quantiles, mean, max_model_tokens)
}

function onlyMixtral(file: ApplicationTokens): ApplicationTokens {
  return { ...file, nodes: file.nodes.filter(({ model }) => model.startsWith('Mixtral')) }
}

/** Each node's outputs from the same tables, but long ones mostly for long prompts: ranks of both agree by CORRELATED_SHARE. */
function correlated(file: ApplicationTokens, seed: number): Workload {
  const { nodes } = workloadOf(file, lengthsOf, seed * 10 + 5)
  const random = seededRandom(seed * 10 + 6)
  return {
    nodes: nodes.map((node) => {
      const longest = Math.max(...node.input_tokens)
      const wanted = Array.from(
        node.input_tokens,
        (tokens) => (CORRELATED_SHARE * tokens) / longest + (1 - CORRELATED_SHARE) * random(),
      )
      const by_rank = [...wanted.keys()].sort((a, b) => (wanted[a] as number) - (wanted[b] as number))
      const lengths = node.output_tokens.slice().sort()
      const output_tokens = new Int32Array(lengths.length)
      for (const [rank, request] of by_rank.entries()) output_tokens[request] = lengths[rank] as number
      return { ...node, output_tokens }
    }),
  }
}
