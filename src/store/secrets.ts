/**
 * Secrets at rest: API keys and agent tokens are stored as hex HMAC-SHA256 under a pepper that D1 never sees, so a copy
 * of the database opens nothing. They carry 40 random base62 characters (238 bits), so no slow hash is needed against
 * guessing, and a check (secret-check.ts).
 */

export const API_KEY_PREFIX = 'sk-sy-'
/** A key's id is so many characters of its hash: enough to be unique, and it opens nothing. */
export const KEY_ID_HASH_CHARS = 16
export const KEY_ID_PREFIX = 'key-'
export const AGENT_TOKEN_PREFIX = 'sya-'
export const SECRET_CHARS = 40
const TICKET_KID_CHARS = 12
/** Longer credentials are refused before they are hashed. */
export const CREDENTIAL_CHARS_MAX = 256

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Bytes from here on are drawn again: 248 is the largest multiple of 62 in a byte, so that all characters are equally likely. */
const UNBIASED_BELOW = 248

export function randomBase62(chars: number): string {
  let text = ''
  while (text.length < chars) text += toBase62(crypto.getRandomValues(new Uint8Array(chars)), chars - text.length)
  return text
}

/** At most `chars` characters, each from one of the bytes. All characters are equally likely. */
export function toBase62(bytes: Uint8Array, chars: number): string {
  let text = ''
  for (const byte of bytes) {
    if (text.length === chars) break
    if (byte < UNBIASED_BELOW) text += BASE62[byte % BASE62.length]
  }
  return text
}

const encoder = new TextEncoder()
/** The pepper's key of this isolate. */
let peppered: { pepper: string; key: CryptoKey } | null = null

/** HMAC-SHA256(pepper, text). Every call of a client is hashed, so the pepper's key is imported once. */
export async function hmacOf(pepper: string, text: string): Promise<Uint8Array> {
  if (peppered?.pepper !== pepper) peppered = { pepper, key: await hmacKey(pepper) }
  return hmac(peppered.key, text)
}

/** Of an API key, by its hash. */
export function keyIdOf(hash: string): string {
  return KEY_ID_PREFIX + hash.slice(0, KEY_ID_HASH_CHARS)
}

/** Hex HMAC-SHA256(pepper, secret). */
export async function hashSecret(pepper: string, secret: string): Promise<string> {
  return hexOf(await hmacOf(pepper, secret))
}

function hmacKey(secret: string): Promise<CryptoKey> {
  return crypto.subtle.importKey('raw', encoder.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
}

async function hmac(key: CryptoKey, text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign('HMAC', key, encoder.encode(text)))
}

function hexOf(bytes: Uint8Array): string {
  let hex = ''
  for (const byte of bytes) hex += byte.toString(16).padStart(2, '0')
  return hex
}

/** Id of the key that signs the tickets of the agent with this token: another token, another key. */
export function ticketKidOf(token_hash: string): string {
  return token_hash.slice(-TICKET_KID_CHARS)
}

/** Compares two secrets in time that depends on neither: their hashes under one key are compared without early exit. */
export async function secretsEqual(a: string, b: string): Promise<boolean> {
  const key = await hmacKey(crypto.randomUUID())
  const [hashA, hashB] = await Promise.all([hmac(key, a), hmac(key, b)])
  let difference = 0
  for (let i = 0; i < hashA.length; i++) difference |= (hashA[i] ?? 0) ^ (hashB[i] ?? 0)
  return difference === 0
}

/** Beside Authorization: Anthropic's and Azure's clients send keys in these. */
const KEY_HEADERS = ['x-api-key', 'api-key']

/** The credential of a tenant's request. `several`: headers name different ones. */
export function presentedKey(
  headers: Headers,
): { status: 'one'; key: string } | { status: 'none' } | { status: 'several' } {
  const keys = new Set<string>()
  const authorised = bearer(headers)
  if (authorised !== null) keys.add(authorised)
  for (const name of KEY_HEADERS) {
    const value = headers.get(name)?.trim() ?? ''
    if (value !== '' && value.length <= CREDENTIAL_CHARS_MAX) keys.add(value)
  }
  const [key, another] = keys
  if (key === undefined) return { status: 'none' }
  return another === undefined ? { status: 'one', key } : { status: 'several' }
}

/** The credential of `Authorization: Bearer …`, or null where there is none or it is longer than any of ours. */
export function bearer(headers: Headers): string | null {
  const match = /^bearer +([\x21-\x7e]+)$/i.exec(headers.get('authorization') ?? '')
  const credential = match?.[1]
  return credential === undefined || credential.length > CREDENTIAL_CHARS_MAX ? null : credential
}
