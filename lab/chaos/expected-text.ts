/**
 * What an emulated engine says to a prompt at temperature 0: a function of the prompt alone. So a client can check every word
 * of an answer, even if several engines served it.
 */
import { emulatedContentHash, emulatedToken } from '../../gpu-agent/engine/backends/emulated/emulated-tokens.ts'
import { EmulatedTextModel } from '../../gpu-agent/src/fronts/local/emulated-text-model.ts'
import type { Encoding } from '../../gpu-agent/src/fronts/local/text-model.ts'

const TEXT = new EmulatedTextModel(2 ** 20)

/** Of a chat whose one message is the prompt. */
export function expectedText(prompt: string, output_tokens: number): string {
  return said(
    TEXT.encodeChat([{ role: 'user', content: prompt }], () => undefined),
    output_tokens,
  )
}

/** Of a completion. */
export function expectedCompletion(prompt: string, output_tokens: number): string {
  return said(TEXT.encodeText(prompt), output_tokens)
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
