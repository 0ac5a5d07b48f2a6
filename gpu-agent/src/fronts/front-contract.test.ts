/** Every front passes the one suite: the local one emulated and with the real model, the child's, vLLM's, and any server's. */
import { afterAll } from 'vitest'
import { describeWithModel, MODEL_PATH } from '../../engine/backends/llama/testing/real-model.ts'
import { PlainServer } from './attached/testing/plain-server.ts'
import { ChildFront } from './child/child-front.ts'
import { createFront } from './create-front.ts'
import { frontContract } from './front.contract.ts'
import type { FrontOptions } from './front-options.ts'
import { startEmbeddedFront } from './local/embedded-front.ts'
import { startEmulatedFront } from './local/emulated-front.ts'
import { innerChild } from './testing/inner-child.ts'
import { WritingVllm } from './vllm/testing/writing-vllm.ts'
import { VllmFront } from './vllm/vllm-front.ts'

const emulated: FrontOptions = { engine: 'emulated', id: 'agent-e0', model_id: 'm', profile: 'tiny', policy: 'plas' }
const embedded: FrontOptions = { ...emulated, engine: 'embedded', model_path: MODEL_PATH, context_tokens: 768 }

function broken(message: string, error: unknown): void {
  throw new Error(message, { cause: error })
}

frontContract('the emulated front', (events) => startEmulatedFront(emulated, events, broken))

frontContract("the child's front", (events) =>
  ChildFront.start({ front: emulated, report: broken, fork: innerChild }, events),
)

frontContract("vLLM's front", async (events) => {
  const server = await new WritingVllm().listen()
  const own = { id: 'agent-e0', model_id: 'm', ordering: 'modelled' as const, server, report: () => undefined }
  return VllmFront.start({ ...own, random: () => 0, times: { record_wait_ms: 30_000 } }, events)
})

frontContract('the front of a server with two routes', async (events) => {
  const server = await new PlainServer({ completions: true }).listen()
  const given = {
    url: server.url,
    key_variable: null,
    api_key: null,
    kind: null,
    models: null,
    kv_tokens: null,
    limits: [],
    further_keys: [],
  }
  const options: FrontOptions = {
    ...{ engine: 'openai', id: 'agent-e0', model_id: 'm', policy: 'plas', context_tokens: 4096 },
    server: { ...given, probe: false, start_limit_ms: 10_000, model: 'plain' },
  }
  const host = { report: () => undefined, leaving: new AbortController().signal, lost: [] }
  const front = await createFront(options, events, undefined, broken, host)
  afterAll(() => server.close())
  return front
})

describeWithModel('with the real model', () => {
  frontContract('the embedded front', (events) => startEmbeddedFront(embedded, events, broken))
  frontContract('the embedded front in its child', (events) => createFront(embedded, events, undefined, broken))
})
