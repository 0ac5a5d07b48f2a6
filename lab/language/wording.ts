/**
 * Rules for English in documentation and messages: plain words, short sentences. The words are those that made our prose read
 * like a translation. Each has what to write in its place.
 */

export const SENTENCE_WORDS_MAX = 35
/** Two joined clauses can be read at once, three cannot. */
export const SEMICOLONS_MAX = 1
/** Words of a shell script that is part of a message. */
const SHELL = /\b(done|fi)\b|\$\(/

export interface Wording {
  pattern: RegExp
  write: string
}

export const AVOIDED: readonly Wording[] = [
  { pattern: /\breplaced unseen\b/i, write: 'is retried on another engine; the client notices nothing' },
  { pattern: /\bbe had\b/i, write: 'say who could not do what: "Could not download the model"' },
  { pattern: /\bis believed only\b/i, write: 'Unproven … are rejected' },
  { pattern: /\bon straight lines\b/i, write: 'linearly interpolated' },
  { pattern: /\bsay(s)? as little as\b/i, write: 'count as none' },
  { pattern: /\bwhat stands\b/i, write: 'Status' },
  { pattern: /\b(what )?is left open\b/i, write: 'Known limitations' },
  { pattern: /\b(whoever|whatever|whomever)\b/i, write: 'name the client, the value, the region' },
  { pattern: /\bwherever it\b/i, write: 'name the place' },
  { pattern: /\bnobody tells\b/i, write: 'say what does not report it' },
  { pattern: /\b(lies?|lay) (in|on|under|at|near|above|below|there)\b/i, write: 'is' },
  { pattern: /\bstands? (in|on|under|at|above|below|beside|with|there|still)\b/i, write: 'is, or: can be found' },
  { pattern: /\banew\b/i, write: 'again' },
  { pattern: /\b(thereby|whereby|hitherto)\b/i, write: 'so, by which, until then' },
  { pattern: /\bthis once\b/i, write: 'only once' },
  { pattern: /\bmend(s|ed|ing)?\b/i, write: 'fix it, with the command that fixes it' },
]

export interface Hit {
  /** Counted from 1. */
  line: number
  text: string
  reason: string
}

/** `text` begins at `line` of its file. Line breaks within are spaces. `list`: its parts may have semicolons between them. */
export function hitsIn(text: string, line: number, list = false): Hit[] {
  const words = AVOIDED.flatMap(({ pattern, write }) => {
    const found = pattern.exec(text)
    return found === null ? [] : [{ line, text: found[0], reason: `write instead: ${write}` }]
  })
  const chains = list || SHELL.test(text) ? [] : sentences(text).filter((one) => semicolonsOf(one) > SEMICOLONS_MAX)
  const chained = chains.map((sentence) => ({
    line,
    text: `${sentence.slice(0, 80)} …`,
    reason: `${semicolonsOf(sentence)} semicolons in a sentence, at most ${SEMICOLONS_MAX}`,
  }))
  const long = sentences(text).flatMap((sentence) => {
    const count = wordsOf(sentence)
    if (count <= SENTENCE_WORDS_MAX) return []
    return [
      {
        line,
        text: `${sentence.slice(0, 80)} …`,
        reason: `${count} words in a sentence, at most ${SENTENCE_WORDS_MAX}`,
      },
    ]
  })
  return [...words, ...chained, ...long]
}

/** Abbreviations and numbers do not end a sentence. */
export function sentences(text: string): string[] {
  return text
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/\b(e\.g|i\.e|etc|vs|cf|Dr|No)\./g, '$1')
    .split(/(?<=[.!?…][)"'*_”’]*) (?=\S)/)
    .filter((sentence) => sentence.trim() !== '')
}

function semicolonsOf(sentence: string): number {
  return sentence.split(';').length - 1
}

function wordsOf(sentence: string): number {
  return sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length
}
