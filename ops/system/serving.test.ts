import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { DEFAULT_MODEL_SHAPE } from '../../gpu-agent/engine/backends/llama/model-shape.ts'
import { DEFAULT_MODEL } from '../model/default-model.ts'
import { banner } from './banner.ts'
import { agentCommand, controlPlaneCommand } from './commands.ts'
import { dataDir } from './data-dir.ts'
import type { DevJson } from './dev-json.ts'
import { readEngines } from './pools.ts'
import { waitForRealCall } from './real-call.ts'
import { freshSecrets } from './secrets.ts'
import { sizeEngine } from './sizing.ts'
import { parseUpFlags, type UpOptions } from './up-flags.ts'

const COMPLETION = JSON.stringify({ choices: [{ message: { content: 'Hi' } }] })
const NEVER = new AbortController().signal

/** Answers with one after the other, the last one for ever. */
async function serve(...answers: { status: number; body: string }[]) {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)]
    requests.push(request)
    response.writeHead(answer?.status ?? 500).end(answer?.body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

function optionsOf(...argv: string[]): UpOptions {
  const verdict = parseUpFlags(argv)
  if (verdict.status !== 'ok') throw new Error(JSON.stringify(verdict))
  return verdict.options
}

test('a call is tried again while no engine is there, until it works', async () => {
  const { url, requests } = await serve({ status: 503, body: 'no engine' }, { status: 200, body: COMPLETION })
  expect(await waitForRealCall(url, 'sk-sy-x', 'm', 20_000, NEVER)).toEqual({ ok: true, serves: 'text' })
  expect(requests.map(({ headers }) => headers.authorization)).toEqual(Array(3).fill('Bearer sk-sy-x'))
  // The program of the call is ended.
  expect(requests.map(({ method }) => method)).toEqual(['POST', 'POST', 'DELETE'])
  expect(requests[2]?.url).toBe(`/v1/programs/${requests[1]?.headers['x-program-id']}`)
})

test('why a call failed is told while others are tried', async () => {
  const refusal = JSON.stringify({ error: { message: 'the server at "x" has no room', code: 'engine_full' } })
  const { url } = await serve({ status: 503, body: refusal }, { status: 200, body: COMPLETION })
  const told: string[] = []
  await waitForRealCall(url, 'k', 'm', 20_000, NEVER, (why) => told.push(why))
  expect(told).toEqual(['the server at "x" has no room'])
})

test('a call that is refused as wrong is not tried again', async () => {
  const { url, requests } = await serve({ status: 400, body: 'bad' }, { status: 200, body: COMPLETION })
  expect(await waitForRealCall(url, 'k', 'm', 20_000, NEVER)).toMatchObject({ reason: 'answered 400: bad' })
  expect(requests).toHaveLength(1)
})

test('a model that writes no text is asked for an embedding', async () => {
  const refusal = { status: 400, body: '{"error":{"code":"generation_unsupported"}}' }
  const embedding = { status: 200, body: '{"data":[{"embedding":[1]}]}' }
  const { url, requests } = await serve(refusal, embedding)
  expect(await waitForRealCall(url, 'k', 'm', 20_000, NEVER)).toEqual({ ok: true, serves: 'embeddings' })
  expect(requests.slice(0, 2).map((request) => request.url)).toEqual(['/v1/chat/completions', '/v1/embeddings'])
})

test('an answer without a choice is no success', async () => {
  const { url } = await serve({ status: 200, body: '{"choices":[]}' })
  expect(await waitForRealCall(url, 'k', 'm', 20_000, NEVER)).toMatchObject({ ok: false })
})

test('when time is up or the start is stopped, the last refusal is the reason', async () => {
  const { url } = await serve({ status: 503, body: 'no engine' })
  expect(await waitForRealCall(url, 'k', 'm', 0, NEVER)).toMatchObject({ reason: 'answered 503: no engine' })
  expect(await waitForRealCall(url, 'k', 'm', 60_000, AbortSignal.abort())).toMatchObject({ ok: false })
})

test('pools are read page by page as engines with their region; a refusal and a foreign answer are reasons', async () => {
  const engine = { engine: 'e', state: 'ready', seats: 4, running: 1, waiting: 2, queued_tokens: 3, kv_used_tokens: 4 }
  const poolsIn = (region: string) => [
    { region, model: 'm', engines: [{ ...engine, kv_capacity_tokens: 5, other: 1 }] },
  ]
  const { url, requests } = await serve(
    { status: 200, body: JSON.stringify({ pools: poolsIn('r'), next_cursor: 'next page' }) },
    { status: 200, body: JSON.stringify({ pools: poolsIn('s'), next_cursor: null }) },
    { status: 401, body: 'who' },
    { status: 200, body: '{}' },
  )
  const read = () => readEngines({ url, adminKey: 'a' })
  const known = { ...engine, kv_capacity_tokens: 5, model: 'm' }
  expect(await read()).toEqual({
    ok: true,
    engines: [
      { ...known, region: 'r' },
      { ...known, region: 's' },
    ],
  })
  expect(requests.map((request) => request.url)).toEqual([
    '/admin/v1/pools?linked=true',
    '/admin/v1/pools?linked=true&cursor=next+page',
  ])
  expect(await read()).toMatchObject({ ok: false, reason: expect.stringContaining('401') })
  expect(await read()).toMatchObject({ ok: false, reason: expect.stringContaining('pools') })
  expect(await readEngines({ url: 'http://127.0.0.1:1', adminKey: 'a' })).toMatchObject({ ok: false })
})

test('engines on a small machine have one thread, and their KV fits into an eighth of its memory', () => {
  const shape = DEFAULT_MODEL_SHAPE
  const small = sizeEngine({ cores: 2, memory_bytes: 8e9 }, 2, shape)
  expect(small).toMatchObject({ threads: 1, seats: 4 })
  expect(small.slots * 2 * small.context_tokens * shape.kv_bytes_per_token).toBeLessThanOrEqual(1e9)
  expect(small.context_tokens).toBeGreaterThan(2048)
  const large = { threads: 4, seats: 8, slots: 16, context_tokens: shape.context_tokens }
  expect(sizeEngine({ cores: 64, memory_bytes: 512e9 }, 2, shape)).toEqual(large)
  const least = { threads: 1, seats: 2, slots: 2, context_tokens: 2048 }
  expect(sizeEngine({ cores: 1, memory_bytes: 1e8 }, 8, shape)).toEqual(least)
})

test('no secret is in a command line, and an emulated engine gets no flag of the embedded one', async () => {
  const place = dataDir('/d')
  const secrets = { ...(await freshSecrets()), agentTokens: { 'us-east-1': 'sya-secret' } }
  const size = { threads: 1, seats: 4, slots: 8, context_tokens: 2048 }
  const none = { id: 'm', path: null, context_tokens: 8192, size: null, advice: null, vllm: null, others: [] }
  const embedded = agentCommand(
    optionsOf(),
    place,
    { id: 'm', path: '/m.gguf', context_tokens: 2048, size, advice: DEFAULT_MODEL, vllm: null, others: [] },
    'us-east',
    secrets,
  )
  expect(embedded.env).toEqual({ SWITCHYARD_AGENT_TOKEN: 'sya-secret' })
  expect(embedded.args.join(' ')).toContain('--context-tokens 2048')
  expect(embedded.args.join(' ')).toContain('--model-path /m.gguf --seats 4 --slots 8 --threads 1')
  expect(embedded.args).toContain(DEFAULT_MODEL.system_prompt)
  expect(embedded.args.join(' ')).toContain('--temperature 0.2 --top-p 0.9')
  const options = optionsOf('--engine', 'emulated')
  const emulated = agentCommand(options, place, none, 'us-east', secrets)
  expect(emulated.args.join(' ')).not.toMatch(/--(model-path|threads)/)
  const all = [embedded, emulated, controlPlaneCommand(options, place, none)]
  for (const secret of [secrets.apiKey, secrets.adminKey, secrets.keyPepper, secrets.ticketSecret, 'sya-secret'])
    expect(all.flatMap(({ args }) => args).join(' ')).not.toContain(secret)
  expect(() => agentCommand(options, place, none, 'eu-west', secrets)).toThrow(/eu-west-1/)
})

test('vLLM gets its model, its Python and what the user asked of it, and each engine a GPU of its own', async () => {
  const place = dataDir('/d')
  const secrets = { ...(await freshSecrets()), agentTokens: { 'us-east-1': 'a', 'eu-west-1': 'b' } }
  const model = { id: 'm', path: '/models/m', context_tokens: 4096, size: null, advice: null, others: [] }
  const argsOf = (device: 'cpu' | 'gpu', region: string, ...argv: string[]) => {
    const served = { ...model, vllm: { python: '/env/bin/python', device } }
    return agentCommand(optionsOf('--engine', 'vllm', ...argv), place, served, region, secrets).args.join(' ')
  }
  const cpu = argsOf('cpu', 'us-east')
  expect(cpu).toContain('--engine vllm --engines 1')
  expect(cpu).toContain('--model-id m')
  expect(cpu).toContain('--model /models/m --vllm-python /env/bin/python')
  // The agent knows the device: it chooses.
  expect(cpu).not.toContain('--seats')
  expect(cpu).not.toMatch(/--(gpus|threads|slots|vllm-args)/)
  const more = argsOf('cpu', 'us-east', '--seats', '2', '--vllm-args', '--dtype float32')
  expect(more).toContain('--seats 2')
  expect(more).toContain('--vllm-args=--dtype float32')
  expect(argsOf('gpu', 'eu-west', '--regions', 'us-east,eu-west', '--engines-per-region', '2')).toContain('--gpus 2,3')
})

test('what is printed has the address, the page, the key and three things to try, but not the admin key', () => {
  const system: DevJson = {
    ...{ url: 'http://127.0.0.1:8787', apiKey: 'sk-sy-x', adminKey: 'sy-admin-x', pid: 1, controlPlanePid: 2 },
    ...{ policy: 'plas', model: 'm', engine: 'embedded', agents: [{ id: 'a', region: 'us-east', url: '', pid: 3 }] },
  }
  const text = banner(system, 1.2, { detached: true, dataDir: '/other' })
  for (const part of [
    'http://127.0.0.1:8787/v1',
    'http://127.0.0.1:8787 (sign in',
    'sk-sy-x',
    'curl',
    'from openai import OpenAI',
    "from 'openai'",
  ])
    expect(text).toContain(part)
  expect(text).toContain('npm run down -- --data-dir /other')
  expect(text).not.toContain('sy-admin-x')
  const embeddings = banner({ ...system, serves: 'embeddings' }, 1.2, { detached: true, dataDir: '/other' })
  expect(embeddings).toContain('client.embeddings.create(model="m"')
  expect(embeddings).not.toContain('chat')
})
