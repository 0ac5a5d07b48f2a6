/** The cells of SamuLLM §5, with the ranges that the paper prints for each application: speedups of ours against both heuristics, end to end. */
import type { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { chainSummary, type Drawing, ensembling, mixed, routing } from '../../planner/paper/applications.ts'

export type ApplicationKind = 'ensembling' | 'routing' | 'chain summary' | 'mixed' | 'ablation'

export interface Cell {
  kind: ApplicationKind
  name: string
  application: (drawing: Drawing) => ApplicationTokens
  /** Applications of which it is a mixture, planned and run one after the other for comparison. */
  parts?: readonly ((drawing: Drawing) => ApplicationTokens)[]
  /** Also planned without preemption, and with the true lengths. */
  variants?: true
  /** Played by `--quick`. */
  quick?: true
}

/** Of the paper, against Max- and Min-heuristic. */
export const PAPER_SPEEDUPS: Readonly<
  Record<ApplicationKind, { max: readonly [number, number]; min: readonly [number, number] } | null>
> = {
  ensembling: { max: [1.1, 2.4], min: [1.0, 1.6] },
  routing: { max: [1.4, 1.8], min: [1.0, 1.1] },
  'chain summary': { max: [1.0, 1.3], min: [1.0, 1.4] },
  mixed: { max: [1.2, 1.4], min: [1.2, 1.4] },
  ablation: null,
}

/** Why cells of ours are below those ranges. */
export const WHY_MISSED: Readonly<Partial<Record<ApplicationKind, { max?: string; min?: string }>>> = {
  routing: {
    max: 'The step times of all five models are transferred from other models, so what a model loses on all eight GPUs is a guess.',
  },
  'chain summary': {
    max:
      'One long document decides: its chunks follow each other, so latency counts, and all GPUs for the summary are as good as any plan. ' +
      'A stage ends only when a node does, so no plan can take GPUs from the summary while its last documents run.',
    min: 'The same long document: half of the GPUs are nearly as fast for it as all of them.',
  },
  mixed: {
    min:
      'Ten nodes on eight GPUs: the Min-heuristic gives each of eight nodes one GPU, which is a good start here. The paper gains by loading less often, and ' +
      'our Min-heuristic counts loading when it compares partitions.',
  },
}

const EVALUATIONS = 4
const SUMMARY_LIMIT = 900
const MIXED_REQUESTS = 5000
const DOCUMENTS = [100, 200, 300, 400, 500] as const

const ensemblingCells = [1000, 5000, 10_000].flatMap((requests) =>
  [256, 512].map(
    (limit): Cell => ({
      kind: 'ensembling',
      name: `${requests.toLocaleString('en')} requests, limit ${limit}`,
      application: (drawing) => ensembling(requests, limit, drawing),
      ...(requests === 1000 ? { quick: true } : {}),
    }),
  ),
)

const routingCells = [false, true].map(
  (known_lengths): Cell => ({
    kind: 'routing',
    name: `lengths ${known_lengths ? 'known' : 'unknown'}`,
    application: (drawing) => routing({ ...drawing, known_lengths }),
    quick: true,
  }),
)

function chainCell(documents: number, evaluations: number, limit: number): Cell {
  return {
    kind: 'chain summary',
    name: `${documents} documents, ${evaluations} evaluations, limit ${limit}`,
    application: (drawing) => chainSummary(documents, evaluations, limit, drawing),
    ...(documents === 100 && evaluations === EVALUATIONS && limit === SUMMARY_LIMIT ? { quick: true } : {}),
  }
}

const chainCells = [
  ...DOCUMENTS.map((documents) => chainCell(documents, EVALUATIONS, SUMMARY_LIMIT)),
  ...[1, 2, 3].map((evaluations) => chainCell(100, evaluations, SUMMARY_LIMIT)),
  ...[100, 300, 500, 700].map((limit) => chainCell(100, EVALUATIONS, limit)),
]

function mixedCell(kind: 'mixed' | 'ablation', documents: number, limit: number): Cell {
  const parts = [
    (drawing: Drawing) => chainSummary(documents, EVALUATIONS, SUMMARY_LIMIT, drawing),
    (drawing: Drawing) => ensembling(MIXED_REQUESTS, limit, drawing),
  ]
  const name = `${documents} documents, ${MIXED_REQUESTS.toLocaleString('en')} requests, limits ${SUMMARY_LIMIT} and ${limit}`
  return {
    ...{ kind, name },
    application: (drawing) => mixed(name, ...parts.map((part) => part(drawing))),
    ...(kind === 'mixed' ? { parts } : { variants: true }),
  }
}

export const CELLS: readonly Cell[] = [
  ...ensemblingCells,
  ...routingCells,
  ...chainCells,
  ...DOCUMENTS.map((documents) => mixedCell('mixed', documents, 256)),
  ...[256, 512].map((limit) => mixedCell('ablation', 500, limit)),
]
