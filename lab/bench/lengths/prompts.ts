/**
 * Prompts of real text for the predictor of output lengths: paragraphs of this project's own documentation with a task behind
 * each, and the questions of `npm run plain-questions`. What is asked decides how long answers are, and so does the text.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { QUESTIONS } from '../../plain-questions/questions.ts'

export interface LengthPrompt {
  /** The class that a developer would name. */
  task: string
  text: string
}

const TASKS: readonly { task: string; asks: string }[] = [
  { task: 'topic', asks: 'Answer in at most three words: what is this text about?' },
  { task: 'sentence', asks: 'Summarise the text above in one short sentence.' },
  { task: 'facts', asks: 'List three facts from the text above.' },
  { task: 'explain', asks: 'Explain the text above to somebody who has never heard of it.' },
  { task: 'letter', asks: 'Write a long and friendly letter about the text above.' },
]
/** Of a paragraph. */
const CHARS_MIN = 200
const CHARS_MAX = 700

/** `count` prompts in random order, a fifth of them questions. `docs`: the folder with the Markdown files. */
export function lengthPrompts(docs: string, count: number, random: () => number): LengthPrompt[] {
  const paragraphs = shuffled(paragraphsOf(docs), random)
  const questions = Array.from({ length: Math.floor(count / 5) }, (_, index) => {
    const question = QUESTIONS[index % QUESTIONS.length]?.text ?? ''
    return { task: 'question', text: index < QUESTIONS.length ? question : `${question} Say why.` }
  })
  const tasks = Array.from({ length: count - questions.length }, (_, index) => {
    const { task, asks } = TASKS[index % TASKS.length] as (typeof TASKS)[number]
    return { task, text: `${paragraphs[index % paragraphs.length]}\n\n${asks}` }
  })
  return shuffled([...questions, ...tasks], random)
}

function paragraphsOf(docs: string): string[] {
  const files = readdirSync(docs).filter((name) => name.endsWith('.md'))
  return files
    .sort()
    .flatMap((name) => readFileSync(join(docs, name), 'utf8').split(/\n\s*\n/))
    .map((paragraph) => paragraph.replace(/\s+/g, ' ').trim())
    .filter((text) => /^[A-Z]/.test(text) && text.length >= CHARS_MIN && text.length <= CHARS_MAX)
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
