/** The two applications of `bench:apps`: an ensemble of two models, and a summary of documents chunk by chunk that another model judges. */
import { seededRandom } from '../../../simulator/random.ts'

export interface BenchSizes {
  lines: number
  documents: number
  /** Of the longest document. */
  chunks_max: number
  output_tokens: number
}

export interface BenchApplication {
  name: string
  nodes: object[]
  lines: object[]
}

/** Models by what they are: the shipped file, and the same weights in 16 bits. */
export const MODELS = ['small', 'precise'] as const

const CHUNK_CHARS = 500
const SUBJECTS = ['The harbour', 'A telescope', 'The orchard', 'A courier', 'The archive', 'A glacier', 'The printer']
const VERBS = ['shapes', 'follows', 'needs', 'replaces', 'protects', 'measures', 'changes']
const OBJECTS = ['the tide', 'a map', 'the harvest', 'its owner', 'a record', 'the road', 'the season', 'old habits']
const TAILS = ['in winter', 'after a storm', 'without notice', 'every year', 'for the village', 'at great cost']

export function benchApplications(sizes: BenchSizes, seed: number): BenchApplication[] {
  return [ensemble(sizes, seed), chainSummary(sizes, seed)]
}

function ensemble({ lines, output_tokens }: BenchSizes, seed: number): BenchApplication {
  const random = seededRandom(seed)
  const body = says('Explain in a few sentences why this is so: {{claim}}', output_tokens)
  return {
    name: 'ensembling',
    nodes: MODELS.map((model) => ({ id: `answer-${model}`, model, requests: 'lines', body })),
    lines: Array.from({ length: lines }, (_, at) => ({ id: `line-${at}`, claim: sentence(random) })),
  }
}

function chainSummary({ documents, chunks_max, output_tokens }: BenchSizes, seed: number): BenchApplication {
  const random = seededRandom(seed + 1)
  const [summarizer, judge] = MODELS
  const summary = 'Summary so far: {{previous}}\nNext part: {{chunk}}\nWrite the summary of all of it.'
  return {
    name: 'chain summary',
    nodes: [
      {
        ...{ id: 'summarize', model: summarizer, documents: { field: 'text', chunk_chars: CHUNK_CHARS } },
        body: says(summary, output_tokens),
      },
      {
        ...{ id: 'judge', model: judge, from: { nodes: ['summarize'], each: 2 } },
        body: says('Is this summary clear? Say why. {{summarize.output}}', output_tokens),
      },
    ],
    lines: Array.from({ length: documents }, (_, at) => {
      // Most documents are short, and one is the longest, as in the paper.
      const chunks = at === 0 ? chunks_max : 1 + Math.floor((chunks_max / 2) * random() ** 2)
      return { id: `document-${at}`, text: text(random, chunks * CHUNK_CHARS) }
    }),
  }
}

function says(content: string, max_tokens: number): object {
  return { messages: [{ role: 'user', content }], max_tokens, temperature: 0 }
}

function sentence(random: () => number): string {
  const one = (words: readonly string[]) => words[Math.floor(random() * words.length)]
  return `${one(SUBJECTS)} ${one(VERBS)} ${one(OBJECTS)} ${one(TAILS)}.`
}

/** A little less than so many characters. */
function text(random: () => number, chars: number): string {
  let made = sentence(random)
  for (;;) {
    const next = `${made} ${sentence(random)}`
    if (next.length > chars) return made
    made = next
  }
}
