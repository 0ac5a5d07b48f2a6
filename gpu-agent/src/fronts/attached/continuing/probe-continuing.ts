/**
 * Finds out whether a server goes on with a text exactly. With temperature 0 it has an answer written, then gives parts of it back
 * to be continued, and compares with the unbroken answer. A text that says little, or says it again and again, shows nothing.
 */
import { CHAT_WAYS, type ChatWay, type Continuing, type ContinuingChat, continuedChat } from './continuing.ts'

/** What one call gave. Null: nothing, or it may not be made. */
export type AskText = (
  api: 'chat' | 'completions',
  fields: object,
  max_tokens: number,
) => Promise<{ text: string; prompt_tokens: number | null } | null>

const ANSWER_TOKENS = 32
const MESSAGES = [{ role: 'user', content: 'Describe how a river begins, grows and reaches the sea.' }]
const PROMPT = 'A river begins in the mountains, where'
/** Parts of the answer's words that are given back. */
const PARTS = [1 / 3, 2 / 3] as const
/** Fewer different words than this may be right by chance. */
const WORDS_MIN = 6
const SPACE = '\n\n'

/** Null: that could not be seen. */
export async function probeContinuing(ask: AskText): Promise<Continuing | null> {
  const answer = await ask('chat', { messages: MESSAGES }, ANSWER_TOKENS)
  const chat = answer === null || !tells(answer.text) ? undefined : await chatWay(ask, answer.text)
  const completed = await ask('completions', { prompt: PROMPT }, ANSWER_TOKENS)
  const completions =
    completed === null || !tells(completed.text) ? undefined : await completesExactly(ask, completed.text)
  if (chat === undefined && completions === undefined) return null
  return { chat: chat ?? null, completions: completions ?? false }
}

async function chatWay(ask: AskText, whole: string): Promise<ContinuingChat | null> {
  for (const way of CHAT_WAYS) {
    const seen = await tried(ask, whole, way)
    if (seen === null) continue
    const { part, prompt_tokens, echoes } = seen
    const spaced = await ask('chat', continuedChat(MESSAGES, part + SPACE, way), 1)
    const more = spaced?.prompt_tokens ?? null
    return { way, echoes, keeps_space: more !== null && prompt_tokens !== null && more > prompt_tokens }
  }
  return null
}

interface SeenWay {
  part: string
  prompt_tokens: number | null
  echoes: boolean
}

/** The last part that was tried. Null: the way is not exact. */
async function tried(ask: AskText, whole: string, way: ChatWay): Promise<SeenWay | null> {
  const seen: SeenWay[] = []
  for (const part of partsOf(whole)) {
    const answer = await ask('chat', continuedChat(MESSAGES, part, way), ANSWER_TOKENS)
    if (answer === null) return null
    const { text, prompt_tokens } = answer
    const echoes = text.startsWith(part)
    if (!goesOn(whole, echoes ? text : part + text)) return null
    seen.push({ part, prompt_tokens, echoes })
  }
  const last = seen.at(-1)
  return last === undefined || seen.some(({ echoes }) => echoes !== last.echoes) ? null : last
}

async function completesExactly(ask: AskText, whole: string): Promise<boolean> {
  for (const part of partsOf(whole)) {
    const answer = await ask('completions', { prompt: PROMPT + part }, ANSWER_TOKENS)
    if (answer === null || !goesOn(whole, part + answer.text)) return false
  }
  return true
}

/** The unbroken answer may have been cut at its limit, and the other one goes on. */
function goesOn(whole: string, text: string): boolean {
  return text.startsWith(whole) && text.length >= whole.length
}

function tells(text: string): boolean {
  return new Set(text.split(/\s+/)).size >= WORDS_MIN
}

/** From the beginning to the end of a word each. */
function partsOf(whole: string): string[] {
  const ends = [...whole.matchAll(/\S+/g)].map(({ index, 0: word }) => index + word.length)
  return PARTS.map((part) => whole.slice(0, ends[Math.floor(ends.length * part) - 1]))
}
