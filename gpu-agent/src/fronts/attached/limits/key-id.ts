/**
 * A name for a key that tells nothing of it: a keyed hash (HMAC) of the provider's origin under the key itself. Two agents with one
 * key at one provider have the same name for it, and the key cannot be found from the name.
 */
import { createHmac } from 'node:crypto'

const CHARS = 16

/** Null: the server asks for no key. */
export function keyId({ url, api_key }: { url: string; api_key: string | null }): string | null {
  if (api_key === null) return null
  return createHmac('sha256', api_key)
    .update(`switchyard key at ${new URL(url).origin}`)
    .digest('hex')
    .slice(0, CHARS)
}
