/**
 * The page's sign-in: the key that a person typed, sealed with AES-256-GCM into a cookie that scripts cannot read. The sealing
 * key is derived from KEY_PEPPER, so a cookie opens nothing without the Worker. Each request is then authorised by the key
 * itself, as any client's request: a revoked key or a disabled tenant ends the session as it ends everything else.
 */
import { z } from 'zod'
import { CREDENTIAL_CHARS_MAX, hmacOf } from '../../store/secrets.ts'

export const SESSION_COOKIE = 'switchyard-session'
/** From the sign-in. Nothing prolongs it. */
export const SESSION_MAX_AGE_S = 12 * 3600
/** A longer value is not one of ours. */
const SEALED_CHARS_MAX = 1024
const IV_BYTES = 12
const PURPOSE = 'page-session:v1'

const Session = z.object({ key: z.string().min(1).max(CREDENTIAL_CHARS_MAX), expires_at_ms: z.number() })
export type Session = z.infer<typeof Session>

export async function sealSession(pepper: string, session: Session): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
  const content = new TextEncoder().encode(JSON.stringify(session))
  const sealed = await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, await sealingKey(pepper), content)
  return base64url(new Uint8Array([...iv, ...new Uint8Array(sealed)]))
}

/** Null: not ours, changed, or expired. */
export async function openSession(pepper: string, value: string, now_ms: number): Promise<Session | null> {
  const bytes = value.length > SEALED_CHARS_MAX ? null : bytesOf(value)
  if (bytes === null || bytes.length <= IV_BYTES) return null
  const iv = bytes.subarray(0, IV_BYTES)
  const key = await sealingKey(pepper)
  try {
    const content = await crypto.subtle.decrypt({ name: 'AES-GCM', iv }, key, bytes.subarray(IV_BYTES))
    const session = Session.parse(JSON.parse(new TextDecoder().decode(content)))
    return session.expires_at_ms > now_ms ? session : null
  } catch {
    // The tag does not fit: another pepper sealed it, or somebody changed it. The viewer signs in again.
    return null
  }
}

async function sealingKey(pepper: string): Promise<CryptoKey> {
  const bytes = await hmacOf(pepper, PURPOSE)
  return crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt'])
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[\w-]+$/.test(text)) return null
  try {
    return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))
  } catch {
    // Not base64url: not ours.
    return null
  }
}
