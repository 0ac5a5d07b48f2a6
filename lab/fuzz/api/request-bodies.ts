/** Bodies that get past the first checks, by operation: a fuzzer that knows none sees nothing but 400. */
import type { Random } from '../../chaos/random.ts'
import { hostileText } from './hostile-values.ts'
import type { Kind } from './known-ids.ts'

export interface BodyWorld {
  random: Random
  model: string
  region: string
  /** The agent whose token sends records. */
  agent: string
  /** The tenant's own. */
  key: string
  pick(kind: Kind): string
}

type Body = (world: BodyWorld) => object

/** A body that is no JSON. */
export interface Form {
  content_type: string
  bytes: Buffer
}

const WORDS = ['salt', 'water', 'plan', 'Go on.', 'expert', '2 + 2 =', '{"a": 1}', 'ümlaut', '日本語'] as const

const text = ({ random }: BodyWorld): string =>
  random.chance(0.05)
    ? hostileText(random)
    : Array.from({ length: random.between(1, 9) }, () => random.pick(WORDS)).join(' ')
const tokens = ({ random }: BodyWorld): number => random.between(1, 6)
const messagesOf = (world: BodyWorld): object[] => {
  const turns = [{ role: 'user', content: text(world) }]
  if (world.random.chance(0.3))
    turns.push({ role: 'assistant', content: text(world) }, { role: 'user', content: text(world) })
  return turns
}
const tool = { type: 'function', function: { name: 'search', parameters: { type: 'object', properties: {} } } }
const some = ({ random }: BodyWorld, share: number, fields: object): object => (random.chance(share) ? fields : {})

const inputItem = (world: BodyWorld): object => ({
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text: text(world) }],
})

export const BODIES: Readonly<Record<string, Body>> = {
  'POST /v1/chat/completions': (world) => ({
    model: world.model,
    messages: messagesOf(world),
    max_tokens: tokens(world),
    ...some(world, 0.5, { stream: true, stream_options: { include_usage: true } }),
    ...some(world, 0.1, { n: 2 }),
    ...some(world, 0.1, { tools: [tool] }),
    ...some(world, 0.1, { metadata: { program_id: world.pick('program') } }),
    ...some(world, 0.05, { response_format: { type: 'json_object' } }),
    ...some(world, 0.1, { logprobs: true, top_logprobs: 2 }),
  }),
  'POST /v1/completions': (world) => ({
    model: world.model,
    prompt: world.random.chance(0.2) ? [text(world), text(world)] : text(world),
    max_tokens: tokens(world),
    ...some(world, 0.5, { stream: true }),
  }),
  'POST /v1/embeddings': (world) => ({ model: world.model, input: text(world) }),
  'POST /v1/messages': (world) => ({
    model: world.model,
    messages: messagesOf(world),
    max_tokens: tokens(world),
    ...some(world, 0.5, { stream: true }),
    ...some(world, 0.2, { system: text(world) }),
  }),
  'POST /v1/messages/count_tokens': (world) => ({ model: world.model, messages: messagesOf(world) }),
  'POST /v1/responses': (world) => ({
    model: world.model,
    input: world.random.chance(0.5) ? text(world) : [inputItem(world)],
    max_output_tokens: tokens(world),
    ...some(world, 0.4, { stream: true }),
    ...some(world, 0.3, { previous_response_id: world.pick('response') }),
    ...some(world, 0.2, { conversation: world.pick('conversation') }),
    ...some(world, 0.2, { store: false }),
  }),
  'POST /v1/responses/input_tokens': (world) => ({ model: world.model, input: text(world) }),
  'POST /v1/conversations': (world) => ({ items: [inputItem(world)], metadata: { note: text(world) } }),
  'POST /v1/conversations/{id}': (world) => ({ metadata: { note: text(world) } }),
  'POST /v1/conversations/{id}/items': (world) => ({ items: [inputItem(world)] }),
  'POST /v1/programs': (world) => ({
    ...some(world, 0.5, { id: `program-${world.random.between(0, 2000)}` }),
    metadata: { note: text(world) },
    ...some(world, 0.2, { app: 'app' }),
    ...some(world, 0.1, { regions: [world.region] }),
    ...some(world, 0.2, { budget: { tokens: world.random.between(1, 5000), calls: world.random.between(1, 20) } }),
  }),
  'POST /v1/uploads': (world) => ({
    ...{ filename: 'lines.jsonl', purpose: 'batch', mime_type: 'application/jsonl' },
    bytes: Buffer.byteLength(fileLines(world)),
  }),
  'POST /v1/uploads/{id}/complete': (world) => ({ part_ids: [world.pick('part').split('/')[1] ?? ''] }),
  'POST /v1/batches': (world) => ({
    ...{ input_file_id: world.pick('file'), endpoint: '/v1/chat/completions', completion_window: '24h' },
    ...some(world, 0.3, { metadata: { note: text(world) } }),
  }),
  'POST /v1/applications': (world) => ({
    ...some(world, 0.8, { id: `application-${world.random.between(0, 20)}` }),
    ...{ name: 'fuzz', input: { lines: [{ id: 'one', question: text(world) }] } },
    nodes: [
      {
        ...{ id: APPLICATION_NODE, model: world.model, requests: 'lines' },
        body: { messages: [{ role: 'user', content: 'Answer {{question}}' }], max_tokens: tokens(world) },
      },
    ],
    ...some(world, 0.3, { start: false }),
  }),
  'POST /page/session': ({ key }) => ({ key }),
  'POST /agents/v1/records': (world) => ({
    agent: world.agent,
    records: Array.from({ length: world.random.between(1, 3) }, () => record(world)),
  }),
  'POST /admin/v1/tenants': (world) => ({ id: world.pick('tenant'), name: text(world) }),
  'PATCH /admin/v1/tenants/{id}': (world) => ({
    ...some(world, 0.5, { name: text(world), weight: world.random.between(1, 9) }),
    disabled: world.random.chance(0.3),
  }),
  'POST /admin/v1/tenants/{id}/keys': (world) => ({ name: 'fuzz', ...some(world, 0.3, { models: [world.model] }) }),
  'PATCH /admin/v1/tenants/{id}/keys/{key}': (world) => ({ strict: world.random.chance(0.5) }),
  'POST /admin/v1/models': (world) => ({ id: world.pick('model'), context_tokens_max: 4096 }),
  'PATCH /admin/v1/models/{id}': (world) => ({ context_tokens_max: world.random.between(1, 100_000) }),
  'POST /admin/v1/regions': (world) => ({ id: world.pick('region'), position: 1_000 }),
  'PATCH /admin/v1/regions/{id}': () => ({ latitude: 1, longitude: 2 }),
  'POST /admin/v1/agents': (world) => ({ id: world.pick('agent'), region: world.region }),
}

/** Of a file for a batch. Always as long, so that an upload of it can be completed. */
const fileLines = ({ model }: Pick<BodyWorld, 'model'>): string =>
  `${JSON.stringify({
    ...{ custom_id: 'one', method: 'POST', url: '/v1/chat/completions' },
    body: { model, messages: [{ role: 'user', content: 'Go on.' }], max_tokens: 2 },
  })}\n`

/** The fields of a form with one file in it. */
const form = (fields: Readonly<Record<string, string>>, file: string, contents: string): Form => {
  const boundary = 'fuzz-boundary'
  const part = (head: string, value: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`
  const parts = Object.entries(fields).map(([name, value]) => part(`name="${name}"`, value))
  const bytes = Buffer.from(
    `${parts.join('')}${part(`name="${file}"; filename="lines.jsonl"`, contents)}--${boundary}--\r\n`,
  )
  return { content_type: `multipart/form-data; boundary=${boundary}`, bytes }
}

export const FORMS: Readonly<Record<string, (world: Pick<BodyWorld, 'model'>) => Form>> = {
  'POST /v1/files': (world) => form({ purpose: 'batch' }, 'file', fileLines(world)),
  'POST /v1/uploads/{id}/parts': (world) => form({}, 'data', fileLines(world)),
}

/** The one node of every application that is drawn. */
export const APPLICATION_NODE = 'answer'

/** Of a lease that the agent was never given: its proof is none. */
function record({ random, agent, region, model, pick }: BodyWorld): object {
  const count = (): number => (random.chance(0.1) ? 2 ** 53 - 1 : random.between(0, 10_000))
  return {
    v: 1,
    ...{
      lease: `lease-${random.between(0, 1e9)}`,
      call: 'call',
      tenant: 'local',
      program: pick('program'),
      run: 'run',
    },
    ...{ thread: 'thread', class: 'tenant', agent, engine: `${agent}-e0`, epoch: 'epoch-1', region, model },
    lease_proof: random.pick(['', '0'.repeat(32), 'A'.repeat(64)]),
    ...{ outcome: 'completed', finish_reason: 'stop', error_code: null },
    ...{ prompt_tokens: count(), cached_tokens: count(), output_tokens: count(), preemptions: count() },
    resumed_tokens: count(),
    ...{ swapped_out_tokens: count(), swapped_in_tokens: count(), recomputed_tokens: count(), swap_us: count() },
    ...{ service_wall_us: count(), service_modelled_us: count(), wait_us: count(), first_token_us: count() },
    ...{ duration_us: count(), ended_at_ms: Date.now() },
  }
}
