/**
 * The applications of SamuLLM §5, with the marginals that the paper publishes: input lengths of 5 to 127 (mean 21) for ensembling and 9 to 577 (mean
 * 310) for routing; documents of 3 chunks in the median, of which the longest has 60 (up to 200 documents) or 201 (from 300 on).
 */
import type { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { normal, seededRandom } from '../../random.ts'
import INPUTS from './inputs.json' with { type: 'json' }
import { bent, drawn } from './marginals.ts'

export const ENSEMBLE_MODELS = [
  'vicuna-13b-v1.5',
  'oasst-sft-4-pythia-12b-epoch-3.5',
  'alpaca-13b',
  'baize-v2-13b',
  'koala-13B-HF',
  'dolly-v2-12b',
  'mpt-7b-chat',
  'chatglm3-6b',
  'stablelm-tuned-alpha-7b',
] as const

/** Table 1. */
export const ROUTED_REQUESTS: Readonly<Record<string, number>> = {
  'Llama-2-70b-chat-hf': 408,
  'Mixtral-8x7B-Instruct-v0.1': 1267,
  'WizardLM-13B-V1.2': 2068,
  'CodeLlama-34b-Instruct-hf': 456,
  'Mistral-7B-Instruct-v0.2': 2657,
}

/** Of the summary prompt and of the authors' code; the evaluator's prompt around a summary is from our trace of it. */
const CHUNK_TOKENS = 2048
const SUMMARY_TEMPLATE_TOKENS = 184
const EVALUATE_TEMPLATE_TOKENS = 38
const SUMMARY_MODEL = 'vicuna-13b-v1.5'
const EVALUATE_MODEL = 'Llama-2-70b-chat-hf'
const ROUTING_OUTPUT_LIMIT = 4096
const MEDIAN_CHUNKS = 3
/** Of a lognormal whose largest of 100 is about 60. */
const CHUNKS_SIGMA = 1.163
const LONGEST_CHUNKS = { few: 60, many: 201, many_from: 300 } as const

const ENSEMBLE_INPUT = { min: 5, mean: 21, max: 127 }
const ROUTING_INPUT = { min: 9, mean: 310, max: 577 }
const ROUTING_OUTPUT = { min: 3, mean: 199, max: 1585 }

export interface Drawing {
  seed: number
  /** As the data at hand have them, not bent to the paper's marginals. */
  raw?: boolean
}

export function ensembling(requests: number, limit: number, { seed, raw = false }: Drawing): ApplicationTokens {
  const random = seededRandom(seed)
  const { quantiles } = INPUTS.tables.mixinstruct_input
  const lengths = raw ? quantiles : bent(quantiles, ENSEMBLE_INPUT)
  const inputs = Array.from({ length: requests }, () => drawn(lengths, random))
  return {
    name: `ensembling ${requests} x ${limit}`,
    nodes: ENSEMBLE_MODELS.map((model) => ({
      ...{ id: model, model, template_tokens: 0, max_output_tokens: limit, requests: inputs },
    })),
  }
}

/** `known_lengths`: outputs of 3 to 1,585 tokens (mean 199), which the planner is told. */
export function routing({ known_lengths, seed, raw = false }: Drawing & { known_lengths: boolean }): ApplicationTokens {
  const random = seededRandom(seed)
  const inputs = INPUTS.tables.routing_input.quantiles
  const lengths = raw ? inputs : bent(inputs, ROUTING_INPUT)
  const outputs = bent(INPUTS.tables.mixtral_gsm8k_output.quantiles, ROUTING_OUTPUT)
  return {
    name: `routing, lengths ${known_lengths ? 'known' : 'unknown'}`,
    nodes: Object.entries(ROUTED_REQUESTS).map(([model, count]) => ({
      ...{ id: model, model, template_tokens: 0, max_output_tokens: ROUTING_OUTPUT_LIMIT },
      requests: Array.from({ length: count }, () => drawn(lengths, random)),
      ...(known_lengths ? { output_tokens: Array.from({ length: count }, () => drawn(outputs, random)) } : {}),
    })),
  }
}

export function chainSummary(
  documents: number,
  evaluations: number,
  limit: number,
  drawing: Drawing,
): ApplicationTokens {
  return {
    name: `chain summary ${documents} documents, ${evaluations} evaluations, limit ${limit}`,
    nodes: [
      {
        ...{
          id: 'summarize',
          model: SUMMARY_MODEL,
          template_tokens: SUMMARY_TEMPLATE_TOKENS,
          max_output_tokens: limit,
        },
        documents: { chunks: chunks(documents, drawing), chunk_tokens: CHUNK_TOKENS },
      },
      {
        ...{
          id: 'evaluate',
          model: EVALUATE_MODEL,
          template_tokens: EVALUATE_TEMPLATE_TOKENS,
          max_output_tokens: limit,
        },
        from: { nodes: ['summarize'], each: evaluations },
      },
    ],
  }
}

function chunks(documents: number, { seed, raw = false }: Drawing): number[] {
  const random = seededRandom(seed)
  if (raw) return Array.from({ length: documents }, () => drawn(INPUTS.tables.chunks.quantiles, random))
  const longest = documents >= LONGEST_CHUNKS.many_from ? LONGEST_CHUNKS.many : LONGEST_CHUNKS.few
  const others = Array.from({ length: documents - 1 }, () => {
    const count = Math.round(MEDIAN_CHUNKS * Math.exp(CHUNKS_SIGMA * normal(random)))
    return Math.min(longest - 1, Math.max(1, count))
  })
  others.splice(Math.floor(random() * documents), 0, longest)
  return others
}

/** Two applications as one (§5.4). Their nodes have different names. */
export function mixed(name: string, ...applications: readonly ApplicationTokens[]): ApplicationTokens {
  return { name, nodes: applications.flatMap(({ nodes }) => nodes) }
}

/** Prompts of ShareGPT for one model: Fig. 3 and the check of §2. */
export function shareGpt(model: string, requests: number, drawing: Drawing): ApplicationTokens {
  const { quantiles } = INPUTS.tables.sharegpt_input
  return oneModel(`${model}, ${requests} requests of ShareGPT`, { model, quantiles, requests }, drawing)
}

export interface OneModel {
  model: string
  /** Of its prompts. */
  quantiles: readonly number[]
  requests: number
  /** Of an answer. Left out: none. */
  limit_tokens?: number
}

export function oneModel(
  name: string,
  { model, quantiles, requests, limit_tokens }: OneModel,
  { seed }: Drawing,
): ApplicationTokens {
  const random = seededRandom(seed)
  const prompts = Array.from({ length: requests }, () => drawn(quantiles, random))
  const limit = limit_tokens === undefined ? {} : { max_output_tokens: limit_tokens }
  return { name, nodes: [{ id: model, model, template_tokens: 0, requests: prompts, ...limit }] }
}
