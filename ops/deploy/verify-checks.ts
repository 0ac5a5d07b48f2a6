/** The steps of `--verify`. Each returns what it found, or throws with what is wrong and what to look at next. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { type AdminClient, at, type TenantClient } from '../switchyard/client.ts'

const TIMEOUT_MS = 60_000
const POLL_MS = 1000
/** A program is listed within a second of its call. */
const LISTED_MS_MAX = 15_000
const ANSWER_TOKENS_MAX = 16
const ENDED = ['completed', 'failed', 'expired', 'cancelled']

export type CheckName = 'health' | 'auth' | 'engines' | 'model' | 'call' | 'stream' | 'program' | 'batch' | 'metrics'

/** What is known of the system; `model` is filled in on the way. */
export interface Found {
  url: string
  api_key: string | null
  admin_key: string | null
  metrics_token: string | null
  tenant: TenantClient | null
  admin: AdminClient | null
  model: string | null
  /** The id of the program of all calls made here. */
  program: string
  batch_limit_ms: number
}

interface Check {
  name: CheckName
  needs: readonly CheckName[]
  /** Null: everything that it needs was given. */
  missing: (found: Found) => string | null
  run: (found: Found) => Promise<string>
}

/** Its message is for the operator as it is. */
export class CheckFailed extends Error {}

const Completion = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string().nullable() }) })).min(1),
  usage: z.object({
    completion_tokens: z.number(),
    switchyard: z.object({ engine: z.string(), wait_s: z.number(), service_s: z.number() }),
  }),
})
const Models = z.object({ data: z.array(z.object({ id: z.string() })) })
const Program = z.object({ calls: z.number() })
const Batch = z.object({
  id: z.string(),
  status: z.string(),
  output_file_id: z.string().nullish(),
  error_file_id: z.string().nullish(),
})

const needsKey = ({ tenant }: Found): string | null =>
  tenant === null ? 'set SWITCHYARD_API_KEY to the key of a tenant for trying things out' : null
const needsAdmin = ({ admin }: Found): string | null => (admin === null ? 'set SWITCHYARD_ADMIN_KEY' : null)
const needsNothing = (): null => null

export const CHECKS: readonly Check[] = [
  { name: 'health', needs: [], missing: needsNothing, run: health },
  { name: 'auth', needs: ['health'], missing: needsNothing, run: auth },
  { name: 'engines', needs: ['health'], missing: needsAdmin, run: engines },
  { name: 'model', needs: ['health'], missing: needsKey, run: model },
  { name: 'call', needs: ['model'], missing: needsKey, run: call },
  { name: 'stream', needs: ['call'], missing: needsKey, run: stream },
  { name: 'program', needs: ['call'], missing: needsKey, run: program },
  { name: 'batch', needs: ['call'], missing: needsKey, run: batch },
  {
    name: 'metrics',
    needs: ['health'],
    missing: ({ metrics_token, admin_key }) =>
      metrics_token === null && admin_key === null ? 'set SWITCHYARD_ADMIN_KEY or METRICS_TOKEN' : null,
    run: metrics,
  },
]

async function health({ url }: Found): Promise<string> {
  const started_ms = performance.now()
  const response = await get(`${url}/healthz`, null)
  const took_ms = Math.round(performance.now() - started_ms)
  if (response.status !== 200) {
    const text = await response.text()
    throw new CheckFailed(
      `GET /healthz answered ${response.status}: ${text.slice(0, 200)}. Is this the URL of a Switchyard?`,
    )
  }
  await response.body?.cancel()
  return `${url} answers in ${took_ms} ms`
}

async function auth({ url }: Found): Promise<string> {
  for (const [path, key] of [
    ['/v1/models', null],
    ['/v1/models', 'sk-sy-00000000000000000000000000000000'],
    ['/admin/v1/tenants', 'sk-sy-00000000000000000000000000000000'],
    ['/metrics', null],
  ] as const) {
    const { status, body } = await get(`${url}${path}`, key)
    await body?.cancel()
    if (status !== 401)
      throw new CheckFailed(
        `GET ${path} with ${key === null ? 'no key' : 'a wrong key'} answered ${status}, not 401. Does a proxy answer in its place?`,
      )
  }
  return 'calls, administration and metrics are refused without a key'
}

async function engines({ admin }: Found): Promise<string> {
  const pools = (await known(admin).list('/pools', {}, 100)) as {
    region: string
    model: string
    engines: { state: string }[]
  }[]
  const all = pools.flatMap((pool) => pool.engines)
  const ready = all.filter(({ state }) => state === 'ready').length
  if (ready === 0)
    throw new CheckFailed(
      `no engine is ready (${all.length} known). Look at an agent's output, and at \`switchyard pools engines\``,
    )
  return `${ready} of ${all.length} engines are ready in ${pools.filter((pool) => pool.engines.length > 0).length} pools`
}

async function model(found: Found): Promise<string> {
  const { data } = Models.parse(await known(found.tenant).ask('GET', '/models'))
  const ids = data.map(({ id }) => id)
  const [first] = ids
  if (first === undefined)
    throw new CheckFailed('the key may use no model. Create one: `switchyard models create ID --context N`')
  if (found.model !== null && !ids.includes(found.model))
    throw new CheckFailed(`the key may not use ${found.model}. It may use ${ids.join(', ')}`)
  found.model ??= first
  return `${ids.length} models, of which ${found.model} is asked`
}

function question({ model: id }: Found): Record<string, unknown> {
  const messages = [{ role: 'user', content: 'What is the capital of France? Answer in one word.' }]
  return { model: id, max_tokens: ANSWER_TOKENS_MAX, messages }
}

async function call(found: Found): Promise<string> {
  const response = await post(found, question(found))
  const text = await response.text()
  if (!response.ok) throw new CheckFailed(`a call was answered ${response.status}: ${text.slice(0, 300)}`)
  const { choices, usage } = Completion.parse(JSON.parse(text))
  const { engine, wait_s, service_s } = usage.switchyard
  const answer = JSON.stringify((choices[0]?.message.content ?? '').slice(0, 40))
  return `${answer} from ${engine}: ${usage.completion_tokens} tokens, waited ${wait_s.toFixed(2)} s, served in ${service_s.toFixed(2)} s`
}

/** Bytes that come one after the other: a proxy that buffers holds them back to the end. */
async function stream(found: Found): Promise<string> {
  const started_ms = performance.now()
  const response = await post(found, { ...question(found), stream: true })
  if (!response.ok || response.body === null)
    throw new CheckFailed(`a stream was answered ${response.status}: ${(await response.text()).slice(0, 300)}`)
  let text = ''
  let first_ms = Number.NaN
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (Number.isNaN(first_ms) && /^data: /m.test(text)) first_ms = performance.now() - started_ms
  }
  const events = text.match(/^data: \{/gm)?.length ?? 0
  if (!/^data: \[DONE\]/m.test(text))
    throw new CheckFailed(`a stream ended after ${events} events without [DONE]. Does a proxy cut responses?`)
  if (events < 2) throw new CheckFailed('a stream came as one event. Does a proxy buffer responses?')
  return `${events} events, the first after ${Math.round(first_ms)} ms`
}

async function program({ tenant, program: id }: Found): Promise<string> {
  const deadline_ms = performance.now() + LISTED_MS_MAX
  for (;;) {
    const { calls } = Program.parse(await known(tenant).ask('GET', `/programs/${at(id)}`))
    if (calls >= 2) {
      await known(tenant).ask('DELETE', `/programs/${at(id)}`)
      return `the program has its ${calls} calls, and was ended`
    }
    if (performance.now() > deadline_ms)
      throw new CheckFailed(
        `the program has ${calls} calls ${LISTED_MS_MAX / 1000} s after 2 were made. Do agents reach this URL to send records?`,
      )
    await sleep(POLL_MS)
  }
}

async function batch(found: Found): Promise<string> {
  const client = known(found.tenant)
  const line = { custom_id: 'verify', method: 'POST', url: '/v1/chat/completions', body: question(found) }
  const form = new FormData()
  form.append('purpose', 'batch')
  form.append('file', new File([`${JSON.stringify(line)}\n`], 'verify.jsonl'))
  const { id: input_file_id } = await client.one('POST', '/files', form)
  const files = [String(input_file_id)]
  try {
    const body = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' }
    let seen = Batch.parse(await client.one('POST', '/batches', body))
    const started_ms = performance.now()
    while (!ENDED.includes(seen.status)) {
      const waited_ms = performance.now() - started_ms
      if (waited_ms > found.batch_limit_ms) {
        await client.one('POST', `/batches/${at(seen.id)}/cancel`)
        throw new CheckFailed(
          `a batch of one line was ${seen.status} after ${Math.round(waited_ms / 1000)} s, and was cancelled. Batches run when online calls leave seats idle: --batch-limit-s waits longer`,
        )
      }
      await sleep(POLL_MS)
      seen = Batch.parse(await client.one('GET', `/batches/${at(seen.id)}`))
    }
    for (const id of [seen.output_file_id, seen.error_file_id]) if (typeof id === 'string') files.push(id)
    if (seen.status !== 'completed' || typeof seen.output_file_id !== 'string')
      throw new CheckFailed(
        `a batch of one line is ${seen.status} without an answer. \`switchyard batches get ${seen.id}\` says why`,
      )
    const output = await new Response(await client.content(`/files/${at(seen.output_file_id)}/content`)).text()
    if (!output.includes('"custom_id":"verify"')) throw new CheckFailed(`a batch answered ${output.slice(0, 200)}`)
    return `one line answered in ${Math.round((performance.now() - started_ms) / 1000)} s; its files are deleted`
  } finally {
    for (const id of files) await client.one('DELETE', `/files/${at(id)}`)
  }
}

async function metrics({ url, metrics_token, admin_key }: Found): Promise<string> {
  const response = await get(`${url}/metrics`, metrics_token ?? admin_key)
  const text = await response.text()
  if (response.status === 401 && metrics_token !== null)
    throw new CheckFailed(
      'GET /metrics refuses the METRICS_TOKEN of the environment. Set the same as a secret of the Worker',
    )
  if (!response.ok) throw new CheckFailed(`GET /metrics answered ${response.status}: ${text.slice(0, 200)}`)
  const values = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'gm'))].map(([, value]) => Number(value))
  const silent = values('switchyard_pool_up').filter((value) => value === 0).length
  if (silent > 0)
    throw new CheckFailed(`${silent} pools do not answer a scrape. The log has pool_unreachable with their names`)
  const families = text.match(/^# TYPE /gm)?.length ?? 0
  const up = values('switchyard_engine_up').filter((value) => value === 1).length
  return `${families} families; ${up} engines are up`
}

function known<T>(client: T | null): T {
  if (client === null) throw new Error('a check ran without what it needs')
  return client
}

function get(url: string, key: string | null): Promise<Response> {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` }
  return fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) })
}

function post({ url, api_key, program: id }: Found, body: Record<string, unknown>): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${api_key}`,
      'content-type': 'application/json',
      'x-program-id': id,
      'x-app': 'verify',
    },
    body: JSON.stringify(body),
    redirect: 'error',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
}
