/** Answers that go on at a server without our plug-in, over real HTTP: by each way, and what is refused before anything is sent. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { AnswerSoFar } from '../../../../../src/core/call/answer-so-far.ts'
import { eventId, type Resume } from '../../../../../src/protocol/index.ts'
import { dispatched, user } from '../../testing/dispatched.ts'
import { RecordingSink } from '../../testing/recording-sink.ts'
import { vllmRequest } from '../../vllm/calls/request-body.ts'
import { type AttachedFront, attachFront } from '../testing/attached-front.ts'
import { PlainServer, type PlainServerOptions, STORY_PROMPT_TOKENS, storyText } from '../testing/plain-server.ts'
import { continuedRequest } from './continued-request.ts'
import type { Continuing, ContinuingChat } from './continuing.ts'

const VLLM: ContinuingChat = { way: 'continue_final_message', echoes: false, keeps_space: true }
const LLAMA: ContinuingChat = { way: 'last_message', echoes: true, keeps_space: true }
const TRIMS: ContinuingChat = { way: 'last_message', echoes: false, keeps_space: false }
const TOKENS = 14

type Body = Record<string, unknown>
type Claims = NonNullable<Parameters<typeof dispatched>[2]>

async function attached(
  continues: ContinuingChat | null,
  options: Partial<PlainServerOptions> = {},
): Promise<AttachedFront & { server: PlainServer }> {
  const server = await new PlainServer({ step_ms: 0, completions: true, continues, ...options }).listen()
  onTestFinished(() => server.close())
  return { ...(await attachFront(server.url, {}, { probe: true })), server }
}

async function run(
  { front }: AttachedFront,
  body: Body,
  resume: Resume | null = null,
  claims: Claims = {},
): Promise<RecordingSink> {
  const sink = new RecordingSink()
  const call = dispatched(front.describe().epoch, body, claims)
  front.serve(resume === null ? call : { ...call, resume }, sink)
  await sink.over
  return sink
}

const chat = (more: Body = {}): Body => ({
  ...{ messages: user('Tell a story.'), temperature: 0, max_tokens: TOKENS },
  ...{ stream_options: { include_usage: true }, ...more },
})

/** What the Worker sends after so many chunks. */
function broken({ chunks, tokens }: RecordingSink, after: number): Resume {
  const answer = new AnswerSoFar()
  for (const [at, chunk] of chunks.slice(0, after).entries()) {
    answer.add(JSON.stringify(chunk), eventId(tokens[at] ?? []))
  }
  return answer.resume() ?? expect.fail('it cannot be resumed')
}

function resumeAt(words: number, more: Partial<Resume> = {}): Resume {
  const told = { tokens: [], output_tokens: words, content: storyText(words) }
  return { ...told, reasoning: '', tool_calls: [], created_s: 1, system_fingerprint: null, ...more }
}

function usageOf({ end }: RecordingSink): Body {
  const { usage } = (end?.last_chunks.at(-1) ?? {}) as { usage?: Body }
  const { prompt_tokens, completion_tokens } = usage ?? {}
  return { prompt_tokens, completion_tokens }
}

describe.each([
  ['the last message left open, as with vLLM', VLLM],
  ['a last message of the assistant, said again, as with llama.cpp', LLAMA],
  ['a template that leaves white space out', TRIMS],
] as const)('%s', (_, continues) => {
  it('is found out, and told to the pool', async () => {
    const { front, events } = await attached(continues)
    expect(events[0]).toMatchObject({
      resumes: true,
      behaviour: { token_chunks: true, continues: { chat: continues, completions: true } },
    })
    expect(front.describe().resumes).toBe(true)
  })

  it.each(['chat', 'completions'] as const)(
    '%s: after a break at any chunk it is the unbroken answer',
    async (dialect) => {
      const under = await attached(continues)
      const { messages: _messages, ...rest } = chat()
      const body = dialect === 'chat' ? chat() : { ...rest, prompt: 'A story:' }
      const whole = await run(under, body, null, { dialect })
      expect(whole.text).toBe(storyText(TOKENS))
      for (let after = 1; after < TOKENS; after++) {
        const resumed = await run(under, body, broken(whole, after), { dialect })
        expect(resumed.error, `after ${after}`).toBeNull()
        const text = storyText(after) + resumed.text
        expect(text).toBe(whole.text)
        expect(resumed.chunks.filter(({ choices: [choice] }) => choice?.delta?.role !== undefined)).toEqual([])
        expect(resumed.end).toMatchObject({ outcome: 'completed', finish_reason: 'length' })
        expect(usageOf(resumed)).toEqual({ prompt_tokens: STORY_PROMPT_TOKENS, completion_tokens: TOKENS })
        expect(resumed.end?.measurement).toMatchObject({ resumed_tokens: after, output_tokens: TOKENS - after })
      }
    },
  )
})

it('goes on with an answer that breaks twice', async () => {
  const under = await attached(LLAMA)
  const whole = await run(under, chat())
  const second = await run(under, chat(), broken(whole, 5))
  const answer = new AnswerSoFar()
  for (const [sink, chunks] of [
    [whole, 5],
    [second, 3],
  ] as const) {
    for (const [at, chunk] of sink.chunks.slice(0, chunks).entries()) {
      answer.add(JSON.stringify(chunk), eventId(sink.tokens[at] ?? []))
    }
  }
  const third = await run(under, chat(), answer.resume())
  expect(answer.content + third.text).toBe(whole.text)
})

it('meets a stop string that began in what the client has', async () => {
  const under = await attached(VLLM)
  const stop = 'word7 word8'
  const resumed = await run(under, chat({ stop }), resumeAt(8))
  expect(resumed.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
  expect(resumed.text).toBe('')
  const other = await run(under, chat({ stop: 'word7 word9' }), resumeAt(8))
  expect(storyText(8) + other.text).toBe(storyText(TOKENS))
})

it('begins anew behind white space that a template leaves out', async () => {
  const under = await attached(TRIMS)
  const resumed = await run(under, chat(), resumeAt(5, { content: `${storyText(5)}\n`, output_tokens: 6 }))
  expect(`${storyText(5)}\n${resumed.text}`).toBe(storyText(TOKENS))
})

it('ends with an error where the server says another text than before', async () => {
  const under = await attached(TRIMS)
  const resumed = await run(under, chat(), resumeAt(5, { content: `${storyText(5)}  ` }))
  expect(resumed.end).toMatchObject({ outcome: 'failed', error: { error: { code: 'engine_failed' }, retryable: true } })
  expect(resumed.text).toBe('')
})

describe('is refused before anything is sent', () => {
  const schema = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } }
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]
  const called = { output_tokens: 3, tool_calls: [{ name: 'f', arguments: '' }] }
  const all = { chat: VLLM, completions: true }
  it.each([
    ['several choices', chat({ n: 2 }), resumeAt(3), all, /several answers/],
    ['a penalty', chat({ frequency_penalty: 0.5 }), resumeAt(3), all, /counts frequency_penalty/],
    ['log probabilities', chat({ logprobs: true }), resumeAt(3), all, /counts logprobs/],
    ['a schema', chat({ response_format: schema }), resumeAt(3), all, /grammar anew/],
    ['tools', chat({ tools }), resumeAt(3), all, /may call tools/],
    ['calls of tools', chat(), resumeAt(0, called), all, /calls of tools/],
    ['reasoning', chat(), resumeAt(3, { reasoning: 'so' }), all, /has reasoning/],
    ['tokens without a count', chat(), resumeAt(3, { output_tokens: 0 }), all, /did not tell/],
    ['nothing left to say', chat(), resumeAt(TOKENS), all, /only its end/],
    ['a draw that may differ', chat({ temperature: 1, stop: 'word2 x' }), resumeAt(3), all, /stop string/],
    ['a prompt of tokens', { prompt: [1, 2] }, resumeAt(3), all, /of tokens/],
    ['chat, where only completions go on', chat(), resumeAt(3), { ...all, chat: null }, /does not go on/],
    ['completions, where only chat goes on', { prompt: 'A' }, resumeAt(3), { ...all, completions: false }, /does not/],
  ] as [string, Body, Resume, Continuing, RegExp][])('%s', (_, body, resume, continuing, reason) => {
    const dialect = body.prompt === undefined ? 'chat' : 'completions'
    const asked = vllmRequest(dialect, body, 'm')
    if (!asked.ok) expect.fail(asked.error.error.message)
    const found = continuedRequest(resume, dialect, asked.request, continuing, true)
    expect(found).toMatchObject({
      ok: false,
      error: { status: 502, retryable: true, error: { code: 'cannot_resume' } },
    })
    expect(found.ok ? '' : found.error.error.message).toMatch(reason)
  })

  it('a penalty over the prompt too, but for vLLM, and prompts of tokens go on by tokens there', () => {
    const asked = vllmRequest(
      'completions',
      { prompt: [1, 2], repetition_penalty: 1.1, max_tokens: 9, min_tokens: 5 },
      'm',
    )
    if (!asked.ok) expect.fail(asked.error.error.message)
    const resume = resumeAt(3, { tokens: [7, 8, 9] })
    const found = continuedRequest(resume, 'completions', asked.request, all, true)
    expect(found).toMatchObject({
      ok: true,
      request: { fields: { prompt: [1, 2, 7, 8, 9], max_tokens: 6, min_tokens: 2 } },
    })
    expect(continuedRequest(resume, 'completions', asked.request, all, false)).toMatchObject({ ok: false })
  })
})

it('is not said of a server that says the same again and again, or begins anew, or was not asked', async () => {
  const repeats = await attached(null)
  expect(repeats.events[0]).toMatchObject({ resumes: false, behaviour: { continues: null } })
  expect(repeats.front.describe().resumes).toBeUndefined()
  const refused = await run(repeats, chat(), resumeAt(3))
  expect(refused.error).toMatchObject({ error: { code: 'cannot_resume' } })
  const server = await new PlainServer({ continues: VLLM }).listen()
  onTestFinished(() => server.close())
  const unasked = await attachFront(server.url)
  expect(unasked.front.describe().resumes).toBeUndefined()
})
