/**
 * A control plane that may open few files, and one tenant that takes all it gets: open streams and new programs. Without a
 * bound workerd reaches its limit of files within seconds and ends. With it the tenant is told to come back, and another
 * tenant is served.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ClientEnd, clientCall } from '../../lab/chaos/client.ts'
import { startTestbed, type Testbed } from '../../lab/testbed/testbed.ts'
import { eventually } from './support/system.ts'

const MODEL = 'emulated-8b'
const OPEN_FILES = 2048
/** Each takes 7 files. */
const STREAMS = 400
const NEW_PROGRAMS = 600
const AT_ONCE = 32
/** As long as an exact answer can be. One that gets a seat may end before the flood does. */
const LONG_TOKENS = 1_000

let testbed: Testbed
let other: { apiKey: string }
beforeAll(async () => {
  testbed = await startTestbed({ name: 'files', regions: ['us-east'], model: MODEL, open_files: OPEN_FILES })
  const flags = { engine: 'emulated', profile: MODEL, seats: 16, slots: 32, engines: 1, 'context-tokens': 32_768 }
  await testbed.agent({ id: 'us-east-1', region: 'us-east', flags }).start()
  other = await testbed.createTenant('other')
})
afterAll(() => testbed.remove())

function call(api_key: string, program: string, options: { output_tokens: number; signal?: AbortSignal }) {
  const { output_tokens, signal } = options
  const stream = signal !== undefined
  const asked = { url: testbed.url, api_key, model: MODEL, program, prompt: 'x', output_tokens, stream }
  return clientCall({ ...asked, ...(signal === undefined ? {} : { signal }) })
}

/** How calls ended. A refusal must name a time to come back. */
function kindsOf(ends: readonly ClientEnd[]): Set<string> {
  return new Set(
    ends.map((ended) => {
      if (ended.end === 'half_truth') return `${ended.end}: ${ended.reason}`
      if (ended.end !== 'refused') return ended.end
      return `${ended.status} ${ended.code}${ended.retry_after_s === null ? ' for ever' : ''}`
    }),
  )
}

it('one tenant’s flood of streams and of new programs leaves the control plane and the others as they are', async () => {
  const { apiKey } = testbed.secrets
  const workerd = testbed.workerdPid
  const leaving = new AbortController()
  const streams = Array.from({ length: STREAMS }, (_, index) =>
    call(apiKey, `stream-${index}`, { output_tokens: LONG_TOKENS, signal: leaving.signal }),
  )
  // The refused ones end at once, the others when their client leaves.
  expect(kindsOf([await Promise.any(streams)])).toEqual(new Set(['429 too_many_open_calls']))
  let next = 0
  const programs: ClientEnd[] = []
  const flooding = Array.from({ length: AT_ONCE }, async () => {
    while (next < NEW_PROGRAMS) {
      next += 1
      programs.push(await call(apiKey, `program-${next}`, { output_tokens: 1 }))
    }
  })
  await Promise.all(flooding)
  expect(kindsOf([await call(other.apiKey, 'other', { output_tokens: 1 })])).toEqual(new Set(['completed']))
  leaving.abort()
  const kinds = kindsOf([...(await Promise.all(streams)), ...programs])
  const allowed = ['429 too_many_open_calls', '429 too_many_new_programs', 'left', 'completed']
  expect([...kinds].filter((kind) => !allowed.includes(kind))).toEqual([])
  expect(kinds).toContain('left')
  await eventually('the tenant is served again', async () => {
    const { end } = await call(apiKey, 'after', { output_tokens: 1 })
    return end === 'completed' ? true : undefined
  })
  expect(await testbed.runningWorkerd()).toBe(workerd)
})
