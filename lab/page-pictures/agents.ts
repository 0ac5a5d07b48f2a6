/** Agents whose programs the pictures show: a survey whose calls branch, agents that edit code, and short answers. */
import * as z from 'zod'
import type { Testbed } from '../testbed/testbed.ts'
import { TOOLS } from './answers.ts'

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const Answer = z.object({
  choices: z
    .array(
      z.object({
        message: z.object({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          tool_calls: z.array(z.looseObject({ id: z.string() })).optional(),
        }),
      }),
    )
    .length(1),
})

export type Message =
  | { role: 'system' | 'user'; content: string }
  | { role: 'tool'; tool_call_id: string; content: string }
  | z.infer<typeof Answer>['choices'][number]['message']

export interface Asked {
  program: string
  app: string
  messages: readonly Message[]
  thread?: string
  parents?: readonly string[]
  apiKey?: string
}

/** The id of the call, and the conversation with its answer. */
export async function call(bed: Testbed, asked: Asked): Promise<{ id: string; messages: readonly Message[] }> {
  const { program, app, messages, thread, parents = [], apiKey } = asked
  const response = await bed.fetch('/v1/chat/completions', {
    method: 'POST',
    ...(apiKey === undefined ? {} : { apiKey }),
    headers: {
      ...{ 'X-Program-Id': program, 'X-App': app },
      ...(thread === undefined ? {} : { 'X-Thread-Id': thread }),
      ...(parents.length === 0 ? {} : { 'X-Parent-Calls': parents.join(',') }),
    },
    body: JSON.stringify({ model: bed.model, messages, tools: TOOLS, max_tokens: 16_000 }),
  })
  if (!response.ok) throw new Error(`${program}: ${response.status} ${await response.text()}`)
  const answered = Answer.parse(await response.json()).choices.map(({ message }) => message)
  return { id: response.headers.get('x-call-id') ?? '', messages: [...messages, ...answered] }
}

/** What came back from the tools that the last answer asked for, and the next request. */
function returned(messages: readonly Message[], next: string): readonly Message[] {
  const last = messages.at(-1)
  const asked = last?.role === 'assistant' ? (last.tool_calls ?? []) : []
  const results = asked.map(({ id }): Message => ({ role: 'tool', tool_call_id: id, content: FOUND }))
  return [...messages, ...results, { role: 'user', content: next }]
}

const FOUND = 'Found. '.repeat(120)
const system = (app: string): Message => ({ role: 'system', content: `You work on ${app}. `.repeat(80) })

/** One call plans, four threads search at once, and one call joins them. */
export async function survey(bed: Testbed, program: string): Promise<void> {
  const app = 'deep-research'
  const plan = await call(bed, {
    ...{ program, app, thread: 'plan' },
    messages: [system(app), { role: 'user', content: 'Plan a survey [long]' }],
  })
  const branches = ['web', 'papers', 'code', 'news'].map(async (thread, at) => {
    let last = plan
    for (let step = 0; step <= at; step++) {
      const messages = returned(last.messages, `${thread} ${step} [search]`)
      last = await call(bed, { program, app, thread, parents: [last.id], messages })
      await pause(200 + 150 * at)
    }
    return last
  })
  const ends = await Promise.all(branches)
  await call(bed, {
    ...{ program, app, thread: 'plan', parents: ends.map(({ id }) => id) },
    messages: [...plan.messages, { role: 'user', content: 'Join what was found [long]' }],
  })
}

/** Reads a file after each call. `rounds`: then it stays with the tool of the last. */
export async function edit(bed: Testbed, program: string, rounds: number, tool_ms = 400): Promise<void> {
  const app = 'refactor'
  let messages: readonly Message[] = [system(app), { role: 'user', content: `Change ${program} [read]` }]
  for (let round = 0; round < rounds; round++) {
    if (round > 0) await pause(tool_ms)
    const { messages: answered } = await call(bed, { program, app, messages })
    messages = returned(answered, 'Go on [read]')
  }
}

/** Two questions. */
export async function answer(bed: Testbed, program: string, apiKey?: string): Promise<void> {
  const app = 'answers'
  const own = apiKey === undefined ? {} : { apiKey }
  const first = await call(bed, {
    ...{ program, app, ...own },
    messages: [system(app), { role: 'user', content: 'A question' }],
  })
  await call(bed, { program, app, ...own, messages: [...first.messages, { role: 'user', content: 'And another' }] })
}

/** A call that goes on while the pictures are taken. Ends with its program. */
export function endless(bed: Testbed, program: string): void {
  const asked = {
    program,
    app: 'refactor',
    messages: [{ role: 'user', content: 'Write all of it [longest]' }],
  } as const
  void call(bed, asked).catch(() => {
    // Its program is ended with the system.
  })
}
