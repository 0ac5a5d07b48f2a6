/** What each kind of server says of itself, in the shapes that their documentation gives (and llama.cpp and vLLM were seen to). */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { askFacts, askModels, type ServerFacts } from './server-facts.ts'
import type { ServerKind } from './server-profile.ts'

type Routes = Record<string, unknown>

async function factsOf(routes: Routes, kind: ServerKind | null = null, model?: string): Promise<ServerFacts> {
  const server = createServer((request, response) => {
    const answer = routes[request.url ?? '']
    if (answer === undefined) response.writeHead(404).end('{"detail":"Not Found"}')
    else response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const asking = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, api_key: null }
  const models = await askModels(asking)
  if (!models.ok) throw new Error(models.reason)
  return askFacts(asking, models.value, model ?? models.value[0]?.id ?? '', kind)
}

const LLAMA = {
  '/v1/models': { data: [{ id: 'smollm2', owned_by: 'llamacpp', meta: { n_ctx_train: 8192, n_ctx: 2048 } }] },
  '/props': { total_slots: 4, build_info: 'b1', default_generation_settings: { n_ctx: 2048, params: {} } },
}

describe('what servers say of themselves', () => {
  it('llama.cpp: slots, the context of each, and its queue where it has --metrics', async () => {
    expect(await factsOf(LLAMA)).toMatchObject({
      ...{ kind: 'llama.cpp', version: 'b1', seats: 4, context_tokens: 2048, kv_tokens: 8192 },
      ...{ reports_queue: false, prefix_cache: true, tools: null },
    })
    const props = { ...LLAMA['/props'], chat_template_caps: { supports_tools: false, supports_typed_content: false } }
    expect(await factsOf({ ...LLAMA, '/props': props })).toMatchObject({ seats: 4, tools: false })
    const metrics = 'llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n'
    expect(await factsOf({ ...LLAMA, '/metrics': metrics })).toMatchObject({ reports_queue: true })
  })

  it('vLLM: by its metrics, with its cache and its context', async () => {
    const metrics =
      'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_waiting{engine="0"} 0\n' +
      'vllm:cache_config_info{block_size="32",num_gpu_blocks="1456"} 1.0\nprocess_start_time_seconds 5\n'
    const models = { data: [{ id: 'm', owned_by: 'vllm', max_model_len: 4096 }] }
    const facts = await factsOf({ '/v1/models': models, '/metrics': metrics, '/version': { version: '0.32.0' } })
    expect(facts).toMatchObject({
      ...{ kind: 'vllm', version: '0.32.0', seats: null, kv_tokens: 46_592, context_tokens: 4096 },
      ...{ reports_queue: true, process_start_s: 5 },
    })
  })

  it('SGLang: seats, tokens and whether it keeps prefixes', async () => {
    const info = { max_total_num_tokens: 90_000, max_running_requests: 48, disable_radix_cache: false, version: '0.5' }
    const models = { data: [{ id: 'm', owned_by: 'sglang', max_model_len: 32_768 }] }
    expect(await factsOf({ '/v1/models': models, '/get_server_info': info })).toMatchObject({
      ...{ kind: 'sglang', seats: 48, kv_tokens: 90_000, context_tokens: 32_768, prefix_cache: true },
    })
    const metrics = 'sglang:num_running_reqs{m="m"} 1\nsglang:num_queue_reqs{m="m"} 2\nsglang:token_usage{m="m"} 0.5\n'
    expect(await factsOf({ '/v1/models': models, '/metrics': metrics })).toMatchObject({ reports_queue: true })
  })

  it('Ollama: the context that it runs with, else the one that was set, else the one of the model', async () => {
    const models = { data: [{ id: 'qwen3:8b', owned_by: 'library' }] }
    const show = { parameters: 'stop "x"\nnum_ctx    16384', model_info: { 'qwen3.context_length': 40_960 } }
    const ollama = { '/v1/models': models, '/api/version': { version: '0.40.12' }, '/api/show': show }
    const running = { models: [{ name: 'qwen3:8b', context_length: 8192 }] }
    expect(await factsOf({ ...ollama, '/api/ps': running })).toMatchObject({ kind: 'ollama', context_tokens: 8192 })
    expect(await factsOf(ollama)).toMatchObject({ version: '0.40.12', context_tokens: 16_384 })
    const unset = { ...ollama, '/api/show': { model_info: show.model_info } }
    expect(await factsOf(unset)).toMatchObject({ context_tokens: 40_960 })
  })

  it('TGI: by its own route, or by its metrics', async () => {
    const models = { data: [{ id: 'm' }] }
    const info = { max_total_tokens: 4096, max_batch_total_tokens: 60_000, version: '3.0' }
    expect(await factsOf({ '/v1/models': models, '/info': info })).toMatchObject({
      ...{ kind: 'tgi', context_tokens: 4096, kv_tokens: 60_000, version: '3.0' },
    })
    const metrics = 'tgi_queue_size 0\ntgi_batch_current_size 0\n'
    const facts = await factsOf({ '/v1/models': models, '/metrics': metrics, '/info': info })
    expect(facts).toMatchObject({ kind: 'tgi', reports_queue: true })
  })

  it('a server that says nothing, or what cannot be, is of no kind and has no sizes', async () => {
    const lies = { total_slots: -4, default_generation_settings: { n_ctx: 'many' } }
    const facts = await factsOf({ '/v1/models': { data: [{ id: 'm', max_model_len: 0 }] }, '/props': lies })
    expect(facts).toMatchObject({ kind: 'llama.cpp', seats: null, kv_tokens: null, context_tokens: null })
    expect(await factsOf({ '/v1/models': { data: [{ id: 'm' }] } })).toMatchObject({
      ...{ kind: 'openai', version: null, seats: null, kv_tokens: null, context_tokens: null, reports_queue: false },
    })
  })

  it('the operator’s word for its kind wins', async () => {
    expect(await factsOf(LLAMA, 'openai')).toMatchObject({ kind: 'openai', seats: null })
  })
})
