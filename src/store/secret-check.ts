/**
 * API keys and agent tokens that verify themselves: after 40 random characters come 8 of a MAC under the pepper. A guess
 * fails the check in the isolate and never reaches D1.
 *
 * Keys of 40 characters were given out without a check and keep working. An isolate holds the list of their hashes, so a
 * guess of that form costs no question either. The list is read again at most every UNCHECKED_LIST_MS.
 */
import { SharedWork } from '../platform/shared-work.ts'
import { hmacOf, randomBase62, SECRET_CHARS, toBase62 } from './secrets.ts'

/** 47 bits: one guess in 2 × 10^14 passes, and then finds nothing in D1. */
export const CHECK_CHARS = 8
/** Hashes that an isolate holds. Those that sort behind them are asked for one by one. */
export const UNCHECKED_LISTED_MAX = 2_000
/** Characters of a hash in the list: enough to tell keys apart. */
export const UNCHECKED_HASH_CHARS = 16
const UNCHECKED_LIST_MS = 2_000
/** Wait for another request's reading of the list. */
const QUESTION_MS = 2_000

/** `prefix`, SECRET_CHARS random base62 characters and their check. */
export async function newSecret(pepper: string, prefix: string): Promise<string> {
  const body = prefix + randomBase62(SECRET_CHARS)
  return body + (await checkOf(pepper, body))
}

/** `unchecked`: it has the form that carries no check. */
export async function verifySecret(
  pepper: string,
  prefix: string,
  secret: string,
): Promise<'valid' | 'invalid' | 'unchecked'> {
  const length = prefix.length + SECRET_CHARS
  if (secret.length !== length + CHECK_CHARS) return 'unchecked'
  const check = await checkOf(pepper, secret.slice(0, length))
  return secret.endsWith(check) ? 'valid' : 'invalid'
}

async function checkOf(pepper: string, body: string): Promise<string> {
  return toBase62(await hmacOf(pepper, `check:${body}`), CHECK_CHARS)
}

/** `hashes`: the first UNCHECKED_HASH_CHARS characters of each, ascending, at most UNCHECKED_LISTED_MAX. */
type LoadHashes = () => Promise<readonly string[]>

/** Which secrets without a check may exist. */
export class UncheckedSecrets {
  #known: { hashes: ReadonlySet<string>; last: string | null; at_ms: number } | null = null
  readonly #asking = new SharedWork<void>()

  /** False: no secret without a check has this hash, and D1 need not be asked. Rejects as `load` does. */
  async mayExist(hash: string, now_ms: number, load: LoadHashes): Promise<boolean> {
    if (this.#holds(hash)) return true
    if (this.#known !== null && now_ms < this.#known.at_ms + UNCHECKED_LIST_MS) return false
    await this.#asking.run('list', () => this.#load(now_ms, load), QUESTION_MS)
    return this.#holds(hash)
  }

  async #load(now_ms: number, load: LoadHashes): Promise<void> {
    const hashes = await load()
    const last = hashes.length < UNCHECKED_LISTED_MAX ? null : (hashes.at(-1) ?? null)
    this.#known = { hashes: new Set(hashes), last, at_ms: now_ms }
  }

  #holds(hash: string): boolean {
    if (this.#known === null) return false
    const { hashes, last } = this.#known
    const start = hash.slice(0, UNCHECKED_HASH_CHARS)
    return hashes.has(start) || (last !== null && start > last)
  }
}
