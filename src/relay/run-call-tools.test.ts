/** Tools around a call: what its messages say came back, what its client expects, and what the engine's ticket has of it. */
import { describe, expect, it } from 'vitest'
import type { DialectName } from './dialects/index.ts'
import { runCall } from './run-call.ts'
import { ADMITTED, chat, claimsWorld, type ErrorAnswer, MODEL, PROGRAM, world } from './testing/world.ts'

const RESULT = 'x'.repeat(40)
const called = (id: string, name: string) => ({ id, type: 'function', function: { name, arguments: '{}' } })

function post(path: string, body: object): Request {
  const init = { method: 'POST', body: JSON.stringify({ model: MODEL, ...body }), headers: PROGRAM }
  return new Request(`http://switchyard.test${path}`, init)
}

/** The same two turns in each API: an answer that calls `search`, and its result of 40 bytes. */
const TURNS: [DialectName, Request][] = [
  [
    'chat',
    chat(
      {
        messages: [
          { role: 'user', content: 'Find it.' },
          { role: 'assistant', content: null, tool_calls: [called('a', 'search')] },
          { role: 'tool', tool_call_id: 'a', content: RESULT },
        ],
      },
      PROGRAM,
    ),
  ],
  [
    'messages',
    post('/v1/messages', {
      max_tokens: 10,
      messages: [
        { role: 'user', content: 'Find it.' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'search', input: {} }] },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'a', content: RESULT },
            { type: 'text', text: 'Go on.' },
          ],
        },
      ],
    }),
  ],
  [
    'responses',
    post('/v1/responses', {
      store: false,
      input: [
        { role: 'user', content: 'Find it.' },
        { type: 'function_call', call_id: 'a', name: 'search', arguments: '{}' },
        { type: 'function_call_output', call_id: 'a', output: RESULT },
      ],
    }),
  ],
]

describe('what tools returned', () => {
  it.each(TURNS)('is told to the program, in %s', async (dialect, request) => {
    const { it: made } = claimsWorld()
    const response = await runCall(request, dialect, made.deps)
    expect(response.status).toBe(200)
    await response.text()
    await made.settled()
    expect(made.saidTo('admit')).toMatchObject([{ tool_results: [{ name: 'search', tokens: 10 }] }])
  })

  it('is told with what the client measured', async () => {
    const { it: made } = claimsWorld()
    const headers = { ...PROGRAM, 'X-Tool-Time': 'search;dur=120' }
    await (await runCall(chat({}, headers), 'chat', made.deps)).text()
    expect(made.saidTo('admit')).toMatchObject([{ tool_times: [{ name: 'search', duration_us: 120_000 }] }])
  })

  it('is nothing in a call without tools', async () => {
    const { it: made } = claimsWorld()
    await (await runCall(chat({}, PROGRAM), 'chat', made.deps)).text()
    expect(made.saidTo('admit')).toMatchObject([{ tool_results: [], tool_times: [] }])
  })
})

describe('the ticket', () => {
  it('says what the forecast goes by: place, tool before and the client’s hint', async () => {
    const { it: made, claims } = claimsWorld()
    const request = chat({ metadata: { expect_tool_s: '2.5', program_id: 'p' } })
    await (await runCall(request, 'chat', made.deps)).text()
    expect(claims).toMatchObject([{ position: 6, last_tool: 'search', expect_tool_us: 2_500_000 }])
    const library = chat({}, { ...PROGRAM, 'X-Program-Hints': 'expect_tool_s=3' })
    await (await runCall(library, 'chat', made.deps)).text()
    expect(claims[1]).toMatchObject({ expect_tool_us: 3_000_000 })
  })

  it('says nothing where nothing is known', async () => {
    const { it: made, claims } = claimsWorld({
      program: { admit: async () => ({ ...ADMITTED, position: 0, last_tool: null }) },
    })
    await (await runCall(chat({}, PROGRAM), 'chat', made.deps)).text()
    await (await runCall(chat(), 'chat', made.deps)).text()
    expect(claims[0]).toMatchObject({ position: 0 })
    expect(claims[0]).not.toHaveProperty('last_tool')
    expect(claims[1]).not.toHaveProperty('position')
    expect(claims[1]).not.toHaveProperty('expect_tool_us')
  })
})

it.each(['soon', '-1', '86401'])(
  'a hint of %j is refused by its name, before an actor is asked',
  async (expect_tool_s) => {
    const made = world({})
    const response = await runCall(chat({ metadata: { expect_tool_s } }, PROGRAM), 'chat', made.deps)
    expect(response.status).toBe(400)
    expect(((await response.json()) as ErrorAnswer).error).toMatchObject({
      code: 'invalid_value',
      param: 'metadata.expect_tool_s',
      message: expect.stringContaining('from 0 to 86400'),
    })
    expect(made.said).toEqual([])
  },
)
