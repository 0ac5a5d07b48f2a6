/** The prompt of a completion, as `echo` returns it. */
import type { Prompt } from '../../openai/translate.ts'
import type { Echo } from './choice-output.ts'
import type { TextModel } from './text-model.ts'

export function echoOf(prompt: Prompt, tokens: ArrayLike<number>, text: TextModel, alone: boolean): Echo {
  const own = Array.from(tokens)
  const decoder = text.decoder()
  const pieces = own.map((token) => decoder.push(token))
  const rest = decoder.end()
  // A client's own text is returned as it was, also where the tokenizer changed it.
  return { text: prompt.kind === 'text' ? prompt.text : pieces.join('') + rest, tokens: own, pieces, alone }
}
