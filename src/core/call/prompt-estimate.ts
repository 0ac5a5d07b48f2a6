/**
 * Prompt tokens from bytes, since a Worker has no tokenizer. The ratio (UTF-8 bytes per token) is learned per model from
 * the engines' counts. The estimate picks between two branches of the balancer and weighs queues. Only the engine's count
 * decides whether a prompt fits.
 */

/** English text through common byte-pair vocabularies has about 4; JSON and code have less. */
export const BYTES_PER_TOKEN_DEFAULT = 4
/** A ratio outside is a measuring error (a single token of an image, an empty prompt) and is clamped. */
export const BYTES_PER_TOKEN_MIN = 0.5
export const BYTES_PER_TOKEN_MAX = 16
/** Weight of one observation: about the last twenty calls count. */
const LEARNING_RATE = 0.05

/** Estimated tokens of a prompt, at least 1. `bytes_per_token` null: not known yet. */
export function estimatePromptTokens(prompt_bytes: number, bytes_per_token: number | null): number {
  return Math.max(1, Math.ceil(prompt_bytes / clampRatio(bytes_per_token ?? BYTES_PER_TOKEN_DEFAULT)))
}

/** The ratio after one more measured prompt. The first measurement is taken as it is. */
export function learnBytesPerToken(
  bytes_per_token: number | null,
  measured: { prompt_bytes: number; prompt_tokens: number },
): number | null {
  if (measured.prompt_tokens <= 0 || measured.prompt_bytes <= 0) return bytes_per_token
  const ratio = clampRatio(measured.prompt_bytes / measured.prompt_tokens)
  return bytes_per_token === null ? ratio : bytes_per_token + LEARNING_RATE * (ratio - bytes_per_token)
}

/** A longer text is encoded piece by piece, which engines do several times faster than it can be looked at. */
const LOOKED_AT_CHARS_MAX = 1024
const encoder = new TextEncoder()
const piece = new Uint8Array(16 * 1024)

/** UTF-8 bytes of a string. A lone surrogate counts as the replacement character's 3. */
export function utf8Bytes(text: string): number {
  if (text.length <= LOOKED_AT_CHARS_MAX) return bytesLookedAt(text)
  let bytes = 0
  for (let at = 0; at < text.length; ) {
    const { read, written } = encoder.encodeInto(at === 0 ? text : text.slice(at), piece)
    at += read
    bytes += written
  }
  return bytes
}

function bytesLookedAt(text: string): number {
  let bytes = text.length
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index)
    if (unit < 0x80) continue
    if (unit < 0x800) bytes += 1
    else if (isPairAt(text, index)) {
      // 4 bytes for 2 units
      bytes += 2
      index += 1
    } else bytes += 2
  }
  return bytes
}

function isPairAt(text: string, index: number): boolean {
  const high = text.charCodeAt(index)
  const low = text.charCodeAt(index + 1)
  return high >= 0xd800 && high <= 0xdbff && low >= 0xdc00 && low <= 0xdfff
}

function clampRatio(ratio: number): number {
  return Math.min(BYTES_PER_TOKEN_MAX, Math.max(BYTES_PER_TOKEN_MIN, ratio))
}
