/** What tests of applications share: applications through the API, and calls that are served by a script. */
import { env } from 'cloudflare:workers'
import { expect, vi } from 'vitest'
import { ApplicationActor } from '../../src/actors/application/application-actor.ts'
import type { LineCall, LineOutcome } from '../../src/actors/batch/line-call.ts'
import type { ApplicationObject } from '../../src/api/applications/application-json.ts'
import { answered } from './batch-tools.ts'
import { json, KEY_A, MODEL, request } from './fixtures.ts'
import { soon } from './soon.ts'

export const says = (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 8 })

export const nodeOf = (id: string, text: string, more: object = {}) => {
  return { id, model: MODEL, requests: 'lines', body: says(text), ...more }
}

export const takerOf = (id: string, nodes: string[], text: string, each = 1) => {
  return { id, model: MODEL, from: { nodes, each }, body: says(text) }
}

export const questions = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `q${index}`, q: `q${index}` }))

/** Two models answer each line, and a third judges both. */
export const ENSEMBLE = [
  takerOf('judge', ['a', 'b'], 'judge({{a.output}},{{b.output}})'),
  nodeOf('a', 'a({{q}})'),
  nodeOf('b', 'b({{q}})'),
]

export async function create(body: object, key = KEY_A): Promise<ApplicationObject> {
  const response = await request('POST', '/v1/applications', key, { name: 'test', ...body })
  const made = await response.json<ApplicationObject>()
  expect([response.status, made]).toEqual([200, made])
  return made
}

/** Status, param and message of a refusal. */
export async function refusalOf(body: object): Promise<[number, string, string, string]> {
  const response = await request('POST', '/v1/applications', KEY_A, { name: 'test', ...body })
  const { error } = await response.json<{ error: { param: string; message: string; code: string } }>()
  return [response.status, error.code, error.param, error.message]
}

export function applicationOf(id: string, key = KEY_A): Promise<ApplicationObject> {
  return json(request('GET', `/v1/applications/${id}`, key))
}

export async function reached(id: string, ...statuses: string[]): Promise<ApplicationObject> {
  await soon(async () => expect(statuses).toContain((await applicationOf(id)).status))
  return applicationOf(id)
}

export const completed = (id: string) => reached(id, 'completed')

export interface NodeLine {
  line: number
  id?: string
  node: string
  copy?: number
  chunk?: number
  chunks?: number
  output: string | null
  error: { code: string; message: string } | null
}

export async function outputOf(id: string, node: string): Promise<NodeLine[]> {
  const response = await request('GET', `/v1/applications/${id}/nodes/${node}/output`, KEY_A)
  const text = new TextDecoder().decode(await response.arrayBuffer())
  expect([response.status, text.at(-1) ?? '\n']).toEqual([200, '\n'])
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}

export const textsOf = async (id: string, node: string) => (await outputOf(id, node)).map(({ output }) => output)

export function promptOf({ body }: LineCall): string {
  return (body as ReturnType<typeof says>).messages[0]?.content ?? ''
}

/** Answers with a text. */
export function answeredWith(content: string): LineOutcome {
  const usage = {
    ...{ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, prompt_tokens_details: { cached_tokens: 1 } },
    switchyard: { wait_s: 0, service_wall_s: 1 },
  }
  return answered(200, { choices: [{ message: { content }, finish_reason: 'stop' }], usage })
}

type Serve = (call: LineCall, signal: AbortSignal) => Promise<LineOutcome> | LineOutcome

/** In place of the relay, for all applications. */
export function serveCalls(serve: Serve): void {
  const served = ApplicationActor.prototype as unknown as { serveLine: Serve }
  vi.spyOn(served, 'serveLine').mockImplementation(serve)
}

/** Answers with the prompt itself. */
export const echo = (call: LineCall) => answeredWith(promptOf(call))

export function applicationStub(id: string, tenant = 'tenant-a') {
  return env.APPLICATION.getByName(JSON.stringify([tenant, id]))
}
