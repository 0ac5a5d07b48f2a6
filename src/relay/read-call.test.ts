/** Calls with long prompts: which go on as their client wrote them, and that nothing else is different. */
import { describe, expect, it } from 'vitest'
import { SCHEDULING_FIELDS } from '../protocol/request-fields.ts'
import { SCANNED_BYTES_MIN } from './read-call.ts'
import { runCall } from './run-call.ts'
import { answering, chat, claimsWorld, failureOf, MODEL, PROGRAM, world } from './testing/world.ts'

const LONG = 'word '.repeat(SCANNED_BYTES_MIN / 5)
const CHAT_URL = 'http://switchyard.test/v1/chat/completions'

/** What the engine got for a body that is written exactly so. */
async function sentFor(body: string, headers: Record<string, string> = PROGRAM): Promise<string> {
  const { it: world, requests } = claimsWorld()
  const response = await runCall(new Request(CHAT_URL, { method: 'POST', body, headers }), 'chat', world.deps)
  expect(response.status).toBe(200)
  await response.text()
  await world.settled()
  return requests[0]?.text() ?? ''
}

const spaced = (text: string): string =>
  `{"model": "${MODEL}", "messages": [ {"role" : "user", "content": "${text}"} ]}`

describe('a long prompt', () => {
  it('reaches the engine as its client wrote it', async () => {
    const messages = `[ {"role" : "user", "content": "${LONG}\\u00e9"} ]`
    const body = await sentFor(spaced(`${LONG}\\u00e9`))
    expect(body).toContain(`"messages":${messages}`)
    expect(JSON.parse(body)).toMatchObject({ model: MODEL, stream: true, stream_options: { include_usage: true } })
  })

  it('is parsed where it is one byte shorter than that pays', async () => {
    const least = spaced('x'.repeat(SCANNED_BYTES_MIN - spaced('').length))
    expect(await sentFor(least)).toContain('[ {"role" :')
    expect(await sentFor(least.replace('x', ''))).toContain('[{"role":')
  })

  it('does not bring fields that steer an engine’s scheduler', async () => {
    const steering = Object.fromEntries(SCHEDULING_FIELDS.map((field) => [field, 1]))
    const messages = [{ role: 'user', content: LONG }]
    const body = JSON.parse(await sentFor(JSON.stringify({ ...steering, model: MODEL, messages, session_id: 's' })))
    expect(Object.keys(body).sort()).toEqual(['messages', 'model', 'stream', 'stream_options'])
  })

  it('does not bring a volatile line', async () => {
    const head = 'x-anthropic-billing-header: cc_version=2; cch=36ee5;\n'
    const messages = (text: string) => [{ role: 'system', content: `${text}${LONG}` }]
    const body = await sentFor(JSON.stringify({ model: MODEL, messages: messages(head) }))
    expect(JSON.parse(body).messages).toEqual(messages(''))
  })

  it('is refused by the name of its field', async () => {
    const messages = [
      { role: 'user', content: LONG },
      { role: 'wizard', content: 'x' },
    ]
    const response = await runCall(chat({ messages }, PROGRAM), 'chat', world().deps)
    expect(response.status).toBe(400)
    expect(((await response.json()) as { error: { param: string } }).error.param).toBe('messages[1].role')
  })

  it.each([
    ['is cut', (json: string) => json.slice(0, -2)],
    ['has a byte that is no UTF-8', (json: string) => json.replace('word', '\u00ff')],
  ])('that %s is no JSON', async (_, changed) => {
    const json = changed(spaced(LONG))
    const body = Uint8Array.from(json, (char) => char.charCodeAt(0))
    const request = new Request(CHAT_URL, { method: 'POST', body, headers: PROGRAM })
    expect(await failureOf(await runCall(request, 'chat', world().deps))).toMatchObject({
      status: 400,
      code: 'invalid_json',
    })
  })

  it('has one fingerprint under its Idempotency-Key, however a retry writes it', async () => {
    const it = world({ engines: { e1: answering('hi') } })
    for (const body of [spaced(LONG), JSON.stringify(JSON.parse(spaced(LONG)))]) {
      const headers = { ...PROGRAM, 'Idempotency-Key': 'k' }
      await (await runCall(new Request(CHAT_URL, { method: 'POST', body, headers }), 'chat', it.deps)).text()
    }
    const [first, second] = it.saidTo('claim') as { fingerprint: string }[]
    expect(second?.fingerprint).toBe(first?.fingerprint)
  })
})
