/** What keys and tokens cost D1: guesses reach it in no form, and many requests at once ask it once. */
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { authenticateAgent } from '../../src/store/agents.ts'
import { catalogue } from '../../src/store/catalogue.ts'
import { CACHE_ABSENT_TTL_MS, CACHE_RENEW_MS, CACHE_TTL_MS } from '../../src/store/isolate-cache.ts'
import { authenticate } from '../../src/store/keys.ts'
import { provisionStatements } from '../../src/store/provision.ts'
import {
  CHECK_CHARS,
  newSecret,
  UNCHECKED_HASH_CHARS,
  UNCHECKED_LISTED_MAX,
  UncheckedSecrets,
  verifySecret,
} from '../../src/store/secret-check.ts'
import { AGENT_TOKEN_PREFIX, API_KEY_PREFIX, randomBase62, SECRET_CHARS } from '../../src/store/secrets.ts'
import { KEY_A, ORIGIN, PROVISION, provision, TOKEN_EAST } from './fixtures.ts'

/** A D1 that counts the questions that reach it: a batch is one. */
function counted() {
  const asked = { questions: 0 }
  const statement = (inner: D1PreparedStatement): D1PreparedStatement =>
    new Proxy(inner, {
      get(target, name) {
        const value = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        return (...given: unknown[]) => {
          if (name === 'bind') return statement(value.apply(target, given))
          asked.questions += 1
          return value.apply(target, given)
        }
      },
    })
  const DB = new Proxy(env.DB, {
    get(target, name) {
      if (name === 'prepare') return (text: string) => statement(target.prepare(text))
      if (name !== 'batch') return Reflect.get(target, name)
      return (statements: D1PreparedStatement[]) => {
        asked.questions += 1
        return target.batch(statements)
      }
    },
  })
  return { asked, env: { ...env, DB } }
}

const withKey = (key: string) => new Request(ORIGIN, { headers: { authorization: `Bearer ${key}` } })
const guess = (prefix: string, chars: number) => prefix + randomBase62(chars)

describe('a secret', () => {
  it('is long and random and carries a check that only the pepper makes', async () => {
    const secrets = await Promise.all(Array.from({ length: 100 }, () => newSecret('pepper', API_KEY_PREFIX)))
    expect(new Set(secrets).size).toBe(100)
    for (const secret of secrets) {
      expect(secret).toMatch(/^sk-sy-[0-9A-Za-z]{48}$/)
      expect(await verifySecret('pepper', API_KEY_PREFIX, secret)).toBe('valid')
      expect(await verifySecret('another', API_KEY_PREFIX, secret)).toBe('invalid')
    }
  })

  it.each([
    ['without a check', SECRET_CHARS, 'unchecked'],
    ['with a guessed check', SECRET_CHARS + CHECK_CHARS, 'invalid'],
    ['one longer', SECRET_CHARS + CHECK_CHARS + 1, 'unchecked'],
  ])('%s', async (_, chars, verdict) => {
    expect(await verifySecret('pepper', API_KEY_PREFIX, guess(API_KEY_PREFIX, chars))).toBe(verdict)
  })
})

describe('the list of secrets without a check', () => {
  const hash = (n: number) => n.toString(16).padStart(UNCHECKED_HASH_CHARS, '0')
  const list = (length: number) => async () => Array.from({ length }, (_, n) => hash(n))

  it('decides alone below its bound, and leaves to D1 what sorts behind a full one', async () => {
    const short = new UncheckedSecrets()
    expect(await short.mayExist(hash(UNCHECKED_LISTED_MAX - 2), 0, list(UNCHECKED_LISTED_MAX - 1))).toBe(true)
    expect(await short.mayExist(hash(UNCHECKED_LISTED_MAX), 0, list(0))).toBe(false)
    const full = new UncheckedSecrets()
    expect(await full.mayExist(hash(UNCHECKED_LISTED_MAX), 0, list(UNCHECKED_LISTED_MAX))).toBe(true)
    expect(await full.mayExist(`${hash(0).slice(0, -1)}-`, 0, list(0))).toBe(false)
  })
})

describe('what reaches D1', () => {
  beforeAll(provision)
  /** Times of their own, so that no test meets what another left in the caches. */
  let now_ms = Date.now()
  const later = () => {
    now_ms += 1_000_000
    return now_ms
  }

  it.each([
    ['of the form with a check', SECRET_CHARS + CHECK_CHARS, 0],
    ['of the form without one', SECRET_CHARS, 1],
  ])('of 200 guessed keys and 200 guessed tokens %s: no question each', async (_, chars, questions) => {
    const at_ms = later()
    const keys = counted()
    for (let n = 0; n < 200; n += 1) {
      const found = await authenticate(withKey(guess(API_KEY_PREFIX, chars)), keys.env, at_ms)
      expect(found).toEqual({ status: 'refused', reason: 'unknown' })
    }
    const tokens = counted()
    for (let n = 0; n < 200; n += 1) {
      const found = await authenticateAgent(withKey(guess(AGENT_TOKEN_PREFIX, chars)), tokens.env, at_ms)
      expect(found).toEqual({ status: 'refused', reason: 'unknown' })
    }
    expect([keys.asked.questions, tokens.asked.questions]).toEqual([questions, questions])
  })

  it('of a key with a check on a cold isolate: one batch, which brings the catalogue', async () => {
    const key = await newSecret(env.KEY_PEPPER, API_KEY_PREFIX)
    const statements = await provisionStatements(env.KEY_PEPPER, {
      ...PROVISION,
      keys: [{ key, tenant: 'tenant-b', name: 'checked' }],
    })
    await env.DB.batch(statements.map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
    const at_ms = later()
    const { asked, env: bindings } = counted()
    expect(await authenticate(withKey(key), bindings, at_ms)).toMatchObject({ identity: { tenant: 'tenant-b' } })
    expect((await catalogue(bindings, at_ms)).regions.map(({ id }) => id)).toEqual(['us-east', 'eu-west'])
    expect(asked.questions).toBe(1)
  })

  it('of 64 calls at once, cold, at renewal and when too old: one question each time', async () => {
    const at_ms = later()
    const { asked, env: bindings } = counted()
    await authenticate(withKey(KEY_A), bindings, at_ms)
    for (const age_ms of [CACHE_RENEW_MS, CACHE_RENEW_MS + CACHE_TTL_MS]) {
      asked.questions = 0
      const calls = Array.from({ length: 64 }, async () => {
        const found = await authenticate(withKey(KEY_A), bindings, at_ms + age_ms)
        await catalogue(bindings, at_ms + age_ms)
        return found.status
      })
      expect(new Set(await Promise.all(calls))).toEqual(new Set(['tenant']))
      expect(asked.questions).toBe(1)
    }
  })

  it('a key and a token without a check work, also where they were made after the list was read', async () => {
    const at_ms = later()
    const key = guess(API_KEY_PREFIX, SECRET_CHARS)
    expect((await authenticate(withKey(key), env, at_ms)).status).toBe('refused')
    const statements = await provisionStatements(env.KEY_PEPPER, {
      ...PROVISION,
      keys: [{ key, tenant: 'tenant-a', name: 'old' }],
    })
    await env.DB.batch(statements.map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
    const found = await authenticate(withKey(key), env, at_ms + CACHE_ABSENT_TTL_MS)
    expect(found).toMatchObject({ status: 'tenant', identity: { tenant: 'tenant-a' } })
    expect(await authenticateAgent(withKey(TOKEN_EAST), env, at_ms)).toMatchObject({
      identity: { agent: 'agent-east' },
    })
  })
})
