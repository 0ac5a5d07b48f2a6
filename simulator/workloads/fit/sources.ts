/** Which trace each profile is fitted to, how its programs are sorted into strata, and where its counts come from. */
import path from 'node:path'
import type { WorkloadProgram } from '../program.ts'
import { readTrace } from '../read-trace.ts'
import type { ChainSource } from './chain-fit.ts'
import type { SearchSource } from './search-fit.ts'

/** Longest prompt and answer together: the context of the engine profiles. */
const PROMPT_TOKENS_MAX = 32_768
const COMMON = 'Fitted by simulator/workloads/fit/main.ts; token counts and structure only, no text. '

interface Source {
  file: string
  provenance: string
}

const SOURCES = {
  sharegpt: {
    file: 'sharegpt_fitted.jsonl',
    provenance:
      'Real (new prompt, output) pairs of ShareGPT chunks (Marugannwg/ShareGPT92k_user_linguistic_mining @ 8186064b, MIT), chained and scaled to the means of the Autellix paper: 6.66 calls, 256 new prompt tokens, 277 output tokens.',
  },
  bfcl: {
    file: 'bfcl_fitted.jsonl',
    provenance:
      'Real call sequences and relative sizes of BFCL v4 multi_turn_base runs of gpt-oss (bbrowning/bfcl-vllm-results @ f98223ae, no licence stated; tasks ShishirPatil/gorilla, Apache-2.0), scaled to the means of the Autellix paper: 10.75 calls, 735 new prompt tokens, 34.1 output tokens.',
  },
  lats: {
    file: 'lats.jsonl',
    provenance:
      "A simulation of the control flow of LanguageAgentTreeSearch (lapisrocks @ 853d8161, MIT) on HotpotQA lengths and Wikipedia tool times, scaled to the means of the Autellix paper: 159.7 calls, 467.2 prompt tokens, 72.6 output tokens. The spread is not the paper's.",
  },
  infercept: {
    file: 'lamps_infercept_multi.jsonl',
    provenance:
      "InferCept's 397 requests with real API durations and return lengths (mars-repository/mars-codebase @ 4cedd107, Apache-2.0); chatbot, image and TTS texts are cut short in the released file.",
  },
  'infercept-single': {
    file: 'lamps_infercept_single.jsonl',
    provenance:
      "InferCept's set with one API call a request, as LAMPS runs it (mars-repository/mars-codebase @ 4cedd107, Apache-2.0).",
  },
  toolbench: {
    file: 'toolbench_tooleval.jsonl',
    provenance:
      'Real call chains of ToolBench evaluations (OpenBMB/ToolBench @ d56fdd89, Apache-2.0), message lengths resampled, durations drawn per tool.',
  },
  'lamps-toolbench': {
    file: 'lamps_toolbench.jsonl',
    provenance:
      "ToolBench chains reweighted to LAMPS' Table 2: 2.45 API calls, 1.72 s an API call (durations lognormal per tool).",
  },
} satisfies Record<string, Source>

export type SourceName = keyof typeof SOURCES
export const SOURCE_NAMES = Object.keys(SOURCES) as SourceName[]

/** Programs of like length fall into a stratum together: how heavy calls are depends on how many there are, and not linearly. */
const CALLS_EDGES: Partial<Record<SourceName, readonly number[]>> = {
  sharegpt: [1, 3, 6, 11, 20],
  bfcl: [7, 9, 11, 13, 16],
  toolbench: [2, 3, 4, 5],
  'lamps-toolbench': [2, 3, 4, 5],
}
const TOOLBENCH_TOOLS = 64

export function readSource(name: SourceName, folder: string): WorkloadProgram[] {
  return readTrace(path.join(folder, SOURCES[name].file))
}

export function searchSource(programs: readonly WorkloadProgram[]): SearchSource {
  return {
    workload: 'lats',
    provenance: COMMON + SOURCES.lats.provenance,
    head_tokens: { sample: 92, value: 92, reflect: 162 },
    reflection_tokens: 60,
    programs,
  }
}

export function chainSource(name: SourceName, programs: readonly WorkloadProgram[]): ChainSource {
  const edges = CALLS_EDGES[name]
  const groups =
    edges === undefined ? Map.groupBy(programs, augmentationOf) : Map.groupBy(programs, (p) => stratumOf(p, edges))
  return {
    workload: name,
    provenance: COMMON + SOURCES[name].provenance,
    prompt_tokens_max: PROMPT_TOKENS_MAX,
    strata: [...groups]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([stratum, group]) => ({
        name: stratum,
        app: edges === undefined ? `${name}/${stratum}` : name,
        app_prefix_tokens: edges === undefined ? commonHead(group) : 0,
        tool: edges === undefined ? stratum : name === 'bfcl' ? 'function' : 'api',
        tools: name.endsWith('toolbench') ? TOOLBENCH_TOOLS : 1,
        programs: group,
      })),
  }
}

/** InferCept's six augmentations, which ids start with. */
function augmentationOf({ id }: WorkloadProgram): string {
  return id.split('-')[0] ?? id
}

function stratumOf({ calls }: WorkloadProgram, edges: readonly number[]): string {
  const place = edges.filter((edge) => calls.length > edge).length
  const from = place === 0 ? 1 : (edges[place - 1] ?? 0) + 1
  const to = edges[place]
  return to === undefined ? `calls ${String(from).padStart(2, '0')}+` : `calls ${String(from).padStart(2, '0')}-${to}`
}

const HEAD_SPREAD_MAX = 0.35
const QUESTION_TOKENS_MIN = 64

/**
 * The few-shot head that first prompts have in common, told by their lengths: where they hardly vary (math, QA, VE), what is left of the
 * shortest after the question; its length is taken to be the spread, at least QUESTION_TOKENS_MIN.
 */
function commonHead(programs: readonly WorkloadProgram[]): number {
  const lengths = programs.map(({ calls }) => calls[0]?.prompt_tokens ?? 0)
  const least = Math.min(...lengths)
  const spread = Math.max(...lengths) - least
  return spread <= HEAD_SPREAD_MAX * least ? Math.max(0, least - Math.max(spread, QUESTION_TOKENS_MIN)) : 0
}
