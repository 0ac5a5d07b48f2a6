/**
 * Agents that name no program, with OpenAI's own client and nothing added: each run is one program, beside any other.
 * The engine plays answers from a file, so runs of one agent are told apart by ids and answers alone.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually, System } from './support/system.ts'

type Message = OpenAI.ChatCompletionMessageParam

const ANSWERS = [
  { when: { tool: 'look_up', turn: 1 }, calls: [{ name: 'look_up', arguments: { city: 'Paris' } }] },
  { when: { tool: 'look_up', turn: 2 }, text: 'Now Oslo.', calls: [{ name: 'look_up', arguments: { city: 'Oslo' } }] },
  { when: { tool: 'look_up' }, text: 'It is warmer in Paris.' },
  { when: { last: 'plan' }, text: 'Ask three experts, then weigh their answers against each other.' },
  { when: { last: 'expert' }, text: 'My advice is to look at the weather report of each city first.' },
  { text: 'I do not know.' },
]

const TOOL: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: { name: 'look_up', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}

let system: System

beforeAll(async () => {
  const script = path.join(process.env.TMPDIR ?? '/tmp', `inference-${process.pid}.json`)
  writeFileSync(script, JSON.stringify({ answers: ANSWERS }))
  system = await System.start({ engine: 'scripted', flags: ['--script', script] })
})
afterAll(async () => {
  await system.remove()
})

/** One run of an agent that uses a tool until it has its answer. Returns the program of each of its calls. */
async function runAgent(client: OpenAI, question: string, stream = false): Promise<(string | null)[]> {
  const messages: Message[] = [
    { role: 'system', content: 'You compare the weather of cities.' },
    { role: 'user', content: question },
  ]
  const programs: (string | null)[] = []
  for (;;) {
    const { message, program } = await ask(client, messages, stream)
    programs.push(program)
    if (message.tool_calls === undefined || message.tool_calls.length === 0) return programs
    messages.push(message)
    for (const { id } of message.tool_calls) messages.push({ role: 'tool', tool_call_id: id, content: '18 degrees' })
  }
}

async function ask(client: OpenAI, messages: Message[], stream: boolean) {
  const body = { model: system.dev.model, messages, tools: [TOOL] }
  if (!stream) {
    const { data, response } = await client.chat.completions.create(body).withResponse()
    const message = data.choices[0]?.message ?? expect.unreachable()
    return { message, program: response.headers.get('x-program-id') }
  }
  const { data, response } = await client.chat.completions.create({ ...body, stream: true }).withResponse()
  const program = response.headers.get('x-program-id')
  const message: OpenAI.ChatCompletionAssistantMessageParam = { role: 'assistant', content: '' }
  for await (const { choices } of data) {
    const delta = choices[0]?.delta
    message.content = `${message.content ?? ''}${delta?.content ?? ''}`
    for (const { index, id, function: called } of delta?.tool_calls ?? []) {
      message.tool_calls ??= []
      const known = message.tool_calls[index]
      if (known?.type === 'function') known.function.arguments += called?.arguments ?? ''
      else {
        const fn = { name: called?.name ?? '', arguments: called?.arguments ?? '' }
        message.tool_calls[index] = { id: id ?? '', type: 'function', function: fn }
      }
    }
  }
  return { message, program }
}

interface Listed {
  id: string
  source: string | null
  calls: number
}

interface ListedCall {
  id: string
  thread: string
  parents: string[]
  source: string | null
  overruled: string[]
}

async function callsOf(program: string, count: number): Promise<ListedCall[]> {
  return eventually(`${count} calls of ${program}`, async () => {
    const page = await system.fetch(`/v1/programs/${program}/calls?limit=100`)
    const { data } = (await page.json()) as { data?: ListedCall[] }
    return data?.length === count ? data : undefined
  })
}

describe('an agent that names nothing', () => {
  it('is one program with a chain of calls, and its entry and usage say why', async () => {
    const programs = await runAgent(system.client(), 'Which is warmer, Paris or Oslo?')
    expect(programs).toHaveLength(3)
    expect(new Set(programs).size).toBe(1)
    const program = programs[0] ?? expect.unreachable()
    const calls = await callsOf(program, 3)
    expect(calls.map(({ parents }) => parents)).toEqual([[], [calls[0]?.id], [calls[1]?.id]])
    expect(new Set(calls.map(({ thread }) => thread)).size).toBe(1)
    expect(calls.map(({ source }) => source)).toEqual(['conversation', 'conversation', 'conversation'])
    const entry = (await (await system.fetch(`/v1/programs/${program}`)).json()) as Listed
    expect(entry).toMatchObject({ source: 'conversation', calls: 3 })
  })

  it.each([false, true])(
    'is one program per run, many runs at once from the same prompt, streamed: %s',
    async (stream) => {
      const client = system.client()
      const runs = await Promise.all(
        Array.from({ length: 12 }, () => runAgent(client, `Same prompt, ${stream}?`, stream)),
      )
      for (const programs of runs) expect(new Set(programs).size).toBe(1)
      expect(new Set(runs.map(([program]) => program)).size).toBe(runs.length)
    },
  )

  it('has the branches that continue one answer as threads of one program', async () => {
    const client = system.client()
    const send = async (messages: Message[]) => {
      const { data, response } = await client.chat.completions
        .create({ model: system.dev.model, messages })
        .withResponse()
      return { text: data.choices[0]?.message.content ?? '', program: response.headers.get('x-program-id') }
    }
    const opening: Message[] = [{ role: 'user', content: 'Make a plan.' }]
    const plan = await send(opening)
    const branch = (name: string) => {
      const history: Message[] = [...opening, { role: 'assistant', content: plan.text }]
      return send([...history, { role: 'user', content: `You are the ${name} expert.` }])
    }
    const branches = await Promise.all(['weather', 'travel', 'food'].map(branch))
    for (const { program } of branches) expect(program).toBe(plan.program)
    const [first, ...others] = await callsOf(plan.program ?? '', 4)
    for (const { parents } of others) expect(parents).toEqual([first?.id])
    expect(new Set(others.map(({ thread }) => thread)).size).toBe(3)
  })

  it('says in the usage why each call belongs to its program', async () => {
    const messages: Message[] = [{ role: 'user', content: 'Hello?' }]
    const usageOf = async (headers: Record<string, string>) => {
      const { usage } = await system.client({ headers }).chat.completions.create({ model: system.dev.model, messages })
      return (usage as { switchyard?: { source?: string } } | undefined)?.switchyard?.source
    }
    expect(await usageOf({})).toBe('conversation')
    expect(await usageOf({ 'X-Program-Id': 'named' })).toBe('header')
  })
})

describe('a trace', () => {
  const traceparent = (trace: string) => ({ traceparent: `00-${trace}-b7ad6b7169203331-01` })
  /** Openings differ, and so do most of their hashes. */
  const OTHERS = ['Write a title.', 'Summarise.', 'Translate.', 'Rank these.', 'Check it.']

  async function send(messages: Message[], trace: string) {
    const client = system.client({ headers: traceparent(trace) })
    const { data, response } = await client.chat.completions
      .create({ model: system.dev.model, messages })
      .withResponse()
    return { text: data.choices[0]?.message.content ?? '', program: response.headers.get('x-program-id') }
  }

  it('that continued a conversation names its program for any other conversation', async () => {
    const [first, second] = ['1af7651916cd43dd8448eb211c80319c', '2af7651916cd43dd8448eb211c80319c']
    const opening: Message[] = [{ role: 'user', content: 'Make a plan.' }]
    const plan = await send(opening, first)
    expect(plan.program).toBe(first)
    const history: Message[] = [...opening, { role: 'assistant', content: plan.text }]
    const next = await send([...history, { role: 'user', content: 'You are the only expert.' }], second)
    expect(next.program).toBe(first)
    for (const content of OTHERS) expect((await send([{ role: 'user', content }], second)).program).toBe(first)
    const calls = await callsOf(first, 2 + OTHERS.length)
    expect(calls.map(({ source }) => source)).toEqual(['trace', 'conversation', ...OTHERS.map(() => 'trace')])
  })
})

describe('two names that disagree', () => {
  it('leave the more explicit one, and the call says so', async () => {
    const messages: Message[] = [{ role: 'user', content: 'Hello?' }]
    const headers = { 'X-Program-Id': 'explicit', 'x-session-id': 'other' }
    await system
      .client({ headers })
      .chat.completions.create({ model: system.dev.model, messages, metadata: { session_id: 'third' } })
    const [call] = await callsOf('explicit', 1)
    expect(call).toMatchObject({ source: 'header', overruled: ['x-session-id', 'metadata.session_id'] })
  })
})

describe('tenants', () => {
  it('are never joined, also with the same words and the same answers', async () => {
    const { apiKey } = await system.createTenant('other')
    const [mine, theirs] = [system.client(), system.client({ apiKey })]
    const opening: Message[] = [{ role: 'user', content: 'Make a plan.' }]
    const { data, response } = await mine.chat.completions
      .create({ model: system.dev.model, messages: opening })
      .withResponse()
    const text = data.choices[0]?.message.content ?? ''
    const history: Message[] = [...opening, { role: 'assistant', content: text }, { role: 'user', content: 'Go on.' }]
    const stolen = await theirs.chat.completions.create({ model: system.dev.model, messages: history }).withResponse()
    expect(stolen.response.headers.get('x-program-id')).not.toBe(response.headers.get('x-program-id'))
    const own = await mine.chat.completions.create({ model: system.dev.model, messages: history }).withResponse()
    expect(own.response.headers.get('x-program-id')).toBe(response.headers.get('x-program-id'))
  })

  it('can switch inference off: their calls without a name leave no state', async () => {
    const { tenant, apiKey } = await system.createTenant('off')
    const change = { method: 'PATCH', apiKey: system.dev.adminKey, body: JSON.stringify({ inference: false }) }
    expect(
      ((await (await system.fetch(`/admin/v1/tenants/${tenant}`, change)).json()) as { inference: boolean }).inference,
    ).toBe(false)
    const client = system.client({ apiKey })
    const messages: Message[] = [{ role: 'user', content: 'Hello?' }]
    const program = await eventually('calls see the change', async () => {
      const { response } = await client.chat.completions.create({ model: system.dev.model, messages }).withResponse()
      return response.headers.get('x-program-id') === null ? 'none' : undefined
    })
    expect(program).toBe('none')
  })
})
