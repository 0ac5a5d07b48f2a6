/** `agents`, `pools`, `models`, `regions`, `audit`: what serves, where, and who changed it. */
import { at } from './client.ts'
import { type Asked, bodyOf, field, figure, number, type OperatorCommand } from './command.ts'

const AGENT_COLUMNS = [
  field('id'),
  field('region'),
  field('state'),
  field('created_at', 'created'),
  field('removed_at', 'removed'),
]

const agents: OperatorCommand[] = [
  {
    words: ['agents', 'list'],
    lists: true,
    args: [],
    flags: { region: { type: 'string', value: 'REGION', help: 'only those of one region' } },
    purpose: 'every agent ever enrolled, with its state',
    run: async ({ client, text, limit }) => {
      const rows = await client.list('/agents', { region: text('region') }, limit)
      return { kind: 'list', rows, columns: AGENT_COLUMNS, empty: 'No agent is enrolled.' }
    },
  },
  {
    words: ['agents', 'get'],
    ...{ args: ['AGENT'], flags: {}, purpose: 'one agent, and its engines as its pools know them' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await client.one('GET', `/agents/${at(id)}`) }),
  },
  {
    words: ['agents', 'create'],
    args: ['AGENT'],
    flags: { region: { type: 'string', value: 'REGION', help: 'where its host is' } },
    ...{ required: ['region'], purpose: 'enrols an agent; its token is shown only once' },
    run: async ({ client, args: [id = ''], text }) => ({
      kind: 'one',
      row: await client.one('POST', '/agents', { id, region: text('region') }),
      secret: 'token',
    }),
  },
  {
    words: ['agents', 'rotate'],
    ...{ args: ['AGENT'], flags: {}, purpose: 'a new token, shown only once; links with the old one are closed' },
    run: async ({ client, args: [id = ''] }) => ({
      kind: 'one',
      row: await client.one('POST', `/agents/${at(id)}/rotate`),
      secret: 'token',
    }),
  },
  ...(['drain', 'undrain'] as const).map(
    (word): OperatorCommand => ({
      words: ['agents', word],
      ...{ args: ['AGENT'], flags: {} },
      purpose: word === 'drain' ? 'stops new calls; open ones finish' : 'takes calls again',
      run: async ({ client, args: [id = ''] }) => ({
        kind: 'one',
        row: await client.one('POST', `/agents/${at(id)}/${word}`),
      }),
    }),
  ),
  {
    words: ['agents', 'remove'],
    ...{ args: ['AGENT'], flags: {}, purpose: 'closes its links for good; its id is not used again' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await client.one('DELETE', `/agents/${at(id)}`) }),
  },
]

const hosts: OperatorCommand[] = [
  {
    words: ['hosts', 'list'],
    lists: true,
    ...{ args: [], flags: {}, purpose: 'every host that lends GPUs to offline applications, and what it runs' },
    run: async ({ client, limit }) => {
      const found = await client.list('/hosts', {}, limit)
      const rows = found.map(({ lent_to, engines, ...host }) => {
        const borrower = lent_to as { tenant: string; application: string } | null
        const running = engines as { model: string; state: string; gpus: number[] }[] | null
        return {
          ...host,
          lent_to: borrower === null ? null : `${borrower.tenant}/${borrower.application}`,
          engines: running?.map(({ model, state, gpus }) => `${model} (GPU ${gpus.join('+')}, ${state})`).join(', '),
        }
      })
      const what = [field('agent'), field('region'), field('linked'), figure('gpus', 'GPUs'), field('lend')]
      const columns = [...what, field('lent_to', 'lent to'), field('engines')]
      return { kind: 'list', rows, columns, empty: 'No agent lends its GPUs: start one with --lend.' }
    },
  },
]

const POOL_FLAGS = {
  region: { type: 'string', value: 'REGION', help: 'only of one region' },
  model: { type: 'string', value: 'MODEL', help: 'only of one model' },
} as const

const pools: OperatorCommand[] = [
  {
    words: ['pools', 'list'],
    lists: true,
    ...{ args: [], flags: POOL_FLAGS, purpose: 'every region × model with its ready engines and queue' },
    run: async ({ client, text, limit }) => {
      const rows = await client.list('/pools', { region: text('region'), model: text('model') }, limit)
      const counts = [
        figure('engines_ready', 'ready'),
        figure('seats'),
        figure('running'),
        figure('queue_depth', 'queue'),
      ]
      const columns = [
        field('region'),
        field('model'),
        ...counts,
        figure('queued_tokens', 'queued tokens'),
        field('reachable'),
      ]
      return { kind: 'list', rows, columns, empty: 'There is no pool: add a region and a model.' }
    },
  },
  {
    words: ['pools', 'engines'],
    lists: true,
    ...{ args: [], flags: POOL_FLAGS, purpose: 'every engine that a pool knows' },
    run: async ({ client, text, limit }) => {
      const asked = { region: text('region'), model: text('model'), linked: 'true' }
      const found = await client.list('/pools', asked, limit)
      const rows = found.flatMap(({ region, model, engines }) =>
        (engines as Record<string, unknown>[]).map((engine) => ({ region, model, ...engine })),
      )
      const load = [figure('running'), figure('seats'), figure('waiting'), figure('leases_since_report', 'leased')]
      const columns = [field('engine'), field('agent'), field('region'), field('model'), field('state'), ...load]
      return { kind: 'list', rows, columns, empty: 'No engine is connected.' }
    },
  },
  {
    words: ['pools', 'leases'],
    lists: true,
    ...{ args: ['REGION', 'MODEL'], flags: {}, purpose: 'the latest leases of a pool, and why each engine was chosen' },
    run: async ({ client, args: [region, model], limit }) => {
      const rows = await client.list('/leases', { region, model }, limit)
      const who = [field('at'), field('tenant'), field('program'), field('engine'), field('reason')]
      const columns = [...who, figure('load'), figure('prompt_tokens_estimate', 'prompt tokens')]
      return { kind: 'list', rows, columns, empty: 'The pool has granted no lease since it started.' }
    },
  },
]

const MODEL_FLAGS = {
  context: { type: 'string', value: 'TOKENS', help: 'tokens of prompt and output together' },
  order: { type: 'string', value: 'modelled|wall', help: 'reading of service that orders programs (default modelled)' },
  objective: {
    type: 'string',
    value: 'token_latency|response',
    help: 'what the policy learned makes small: latency per token of programs (default), or response time',
  },
  'bytes-per-token': { type: 'string', value: 'N', help: 'first estimate, until engines have measured it (default 4)' },
  'prompt-price': { type: 'string', value: 'PRICE', help: 'of a million tokens, in your currency, or none' },
  'cached-price': { type: 'string', value: 'PRICE', help: 'of those that were cached (default: as the others)' },
  'output-price': { type: 'string', value: 'PRICE', help: 'of a million tokens of output, or none' },
} as const

function modelFields(asked: Asked) {
  const context_tokens_max = number(asked, 'context')
  return bodyOf({
    ...{ context_tokens_max, ordering_service: asked.text('order'), objective: asked.text('objective') },
    bytes_per_token: number(asked, 'bytes-per-token'),
    prompt_price: number(asked, 'prompt-price', 'nullable'),
    cached_prompt_price: number(asked, 'cached-price', 'nullable'),
    output_price: number(asked, 'output-price', 'nullable'),
  })
}

const REGION_FLAGS = {
  position: { type: 'string', value: 'N', help: 'order of preference where a client’s place is unknown (default 0)' },
  hint: { type: 'string', value: 'HINT', help: 'Cloudflare’s location hint for its pools: weur, enam, apac …' },
  latitude: { type: 'string', value: 'DEG', help: 'where it is, to find the nearest' },
  longitude: { type: 'string', value: 'DEG', help: 'where it is, to find the nearest' },
} as const

function regionFields(asked: Asked) {
  const [latitude, longitude] = [number(asked, 'latitude', 'nullable'), number(asked, 'longitude', 'nullable')]
  return bodyOf({ position: number(asked, 'position'), location_hint: asked.text('hint'), latitude, longitude })
}

const catalogue: OperatorCommand[] = [
  {
    words: ['models', 'list'],
    lists: true,
    ...{ args: [], flags: {}, purpose: 'every model that is served' },
    run: async ({ client, limit }) => {
      const rows = await client.list('/models', {}, limit)
      const columns = [
        field('id'),
        field('ordering_service', 'ordered by'),
        field('objective'),
        figure('context_tokens_max', 'context'),
        figure('bytes_per_token', 'bytes/token'),
        ...[figure('prompt_price', 'price in'), figure('output_price', 'price out')],
      ]
      return { kind: 'list', rows, columns, empty: 'There is no model.' }
    },
  },
  {
    words: ['models', 'create'],
    ...{ args: ['MODEL'], flags: MODEL_FLAGS, required: ['context'], purpose: 'a new model for engines to serve' },
    run: async (asked) => {
      const [id] = asked.args
      return { kind: 'one', row: await asked.client.one('POST', '/models', { id, ...modelFields(asked) }) }
    },
  },
  {
    words: ['models', 'update'],
    ...{ args: ['MODEL'], flags: MODEL_FLAGS, purpose: 'changes a model; calls see it within 10 s' },
    run: async (asked) => {
      const [id = ''] = asked.args
      return { kind: 'one', row: await asked.client.one('PATCH', `/models/${at(id)}`, modelFields(asked)) }
    },
  },
  {
    words: ['regions', 'list'],
    lists: true,
    ...{ args: [], flags: {}, purpose: 'every region, in order of preference' },
    run: async ({ client, limit }) => {
      const rows = await client.list('/regions', {}, limit)
      const columns = [
        field('id'),
        figure('position'),
        field('location_hint', 'hint'),
        figure('latitude'),
        figure('longitude'),
      ]
      return { kind: 'list', rows, columns, empty: 'There is no region.' }
    },
  },
  {
    words: ['regions', 'create'],
    ...{ args: ['REGION'], flags: REGION_FLAGS, purpose: 'a new region for agents' },
    run: async (asked) => {
      const [id] = asked.args
      return { kind: 'one', row: await asked.client.one('POST', '/regions', { id, ...regionFields(asked) }) }
    },
  },
  {
    words: ['regions', 'update'],
    ...{ args: ['REGION'], flags: REGION_FLAGS, purpose: 'changes a region; calls see it within 10 s' },
    run: async (asked) => {
      const [id = ''] = asked.args
      return { kind: 'one', row: await asked.client.one('PATCH', `/regions/${at(id)}`, regionFields(asked)) }
    },
  },
  {
    words: ['audit', 'list'],
    lists: true,
    args: [],
    flags: { object: { type: 'string', value: 'KIND:ID', help: 'only of one object, such as tenant:acme' } },
    purpose: 'what operators changed, latest first',
    run: async ({ client, text, limit }) => {
      const rows = await client.list('/audit', { object: text('object') }, limit)
      const columns = [field('at'), field('actor'), field('action'), field('object'), field('after')]
      return { kind: 'list', rows, columns, empty: 'Nothing was changed.' }
    },
  },
  {
    words: ['dead-letters', 'list'],
    lists: true,
    ...{ args: [], flags: {}, purpose: 'rows and records that could not be applied, latest first' },
    run: async ({ client, limit }) => {
      const rows = await client.list('/dead-letters', {}, limit)
      const columns = [field('at'), field('kind'), field('tenant'), field('program'), field('run'), field('reason')]
      return { kind: 'list', rows, columns, empty: 'There is none.' }
    },
  },
]

export const FLEET_COMMANDS: readonly OperatorCommand[] = [...agents, ...pools, ...hosts, ...catalogue]
