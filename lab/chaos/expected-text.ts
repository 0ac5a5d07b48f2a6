/**
 * What an emulated engine says to a prompt at temperature 0: a function of the prompt alone. So a client can check every word
 * of an answer, even if several engines served it.
 */
import { emulatedContentHash, emulatedToken } from '../../gpu-agent/engine/backends/emulated/emulated-tokens.ts'
import { EmulatedTextModel } from '../../gpu-agent/src/fronts/local/emulated-text-model.ts'
import type { Encoding } from '../../gpu-agent/src/fronts/local/text-model.ts'
import type { Api } from './apis.ts'

const TEXT = new EmulatedTextModel(2 ** 20)

/** A chat, a message and a response have the prompt as their one message. */
export function expectedAnswer(api: Api, prompt: string, output_tokens: number): string {
  const messages = [{ role: 'user' as const, content: prompt }]
  const encoding = api === 'completions' ? TEXT.encodeText(prompt) : TEXT.encodeChat(messages, () => undefined)
  return said(encoding, output_tokens)
}

function said(encoding: Encoding, output_tokens: number): string {
  if (!encoding.ok) throw new RangeError('the prompt is longer than any context')
  const { tokens } = encoding
  const content_hash = emulatedContentHash(tokens, 0)
  const decoder = TEXT.decoder()
  let text = ''
  for (let at = 0; at < output_tokens; at++) text += decoder.push(emulatedToken(content_hash, tokens.length + at))
  return text + decoder.end()
}
