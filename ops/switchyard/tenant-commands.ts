/** `tenants`, `keys`, `programs`, `calls`: who pays, with which keys, and what of theirs runs. */
import { at, CommandFailure, type Row } from './client.ts'
import { type Asked, bodyOf, field, figure, ids, number, type OperatorCommand, switchOf, weightOf } from './command.ts'
import { toldEnded, toldWeight } from './told-changes.ts'

const BUDGET_FLAGS = {
  'day-budget': {
    type: 'string',
    value: 'tokens=N,…|none',
    help: 'what its calls may use in a UTC day (with calls, tokens, service_s, cost)',
  },
  'month-budget': {
    type: 'string',
    value: 'tokens=N,…|none',
    help: 'the same of a UTC month. One without the other lifts the other',
  },
} as const

/** Left out: undefined, which changes nothing. */
function budgetOf(asked: Asked): Row | null | undefined {
  const [day, month] = [limitsOf(asked, 'day-budget'), limitsOf(asked, 'month-budget')]
  if (day === undefined && month === undefined) return undefined
  const budget = bodyOf({ day: day ?? undefined, month: month ?? undefined })
  return Object.keys(budget).length === 0 ? null : budget
}

/** Null: `none`. */
function limitsOf(asked: Asked, flag: string): Row | null | undefined {
  const text = asked.text(flag)
  if (text === undefined || text === 'none') return text === undefined ? undefined : null
  const limits = text.split(',').map((part) => part.split('=').map((piece) => piece.trim()))
  const is_sound = limits.every(
    ([name, value, ...more]) => name && value && Number.isFinite(Number(value)) && more.length === 0,
  )
  if (is_sound) return Object.fromEntries(limits.map(([name, value]) => [name, Number(value)]))
  throw new CommandFailure('usage', `--${flag} takes limits such as tokens=1000000,cost=50, or none, not "${text}"`)
}

const LIMITS = {
  'calls-per-minute': { type: 'string', value: 'N|none', help: 'calls that it may make a minute' },
  inference: {
    type: 'string',
    value: 'on|off',
    help: 'whether calls without a name join programs by their conversation',
  },
  objective: {
    type: 'string',
    value: 'NAME|none',
    help: 'what the policy learned makes small: token_latency or response (none: as the model has it)',
  },
  'live-programs': { type: 'string', value: 'N|none', help: 'programs that it may have running' },
  shards: { type: 'string', value: 'N', help: 'objects that new runs of its programs are spread over (default 1)' },
  ...BUDGET_FLAGS,
  'borrow-gpus': { type: 'string', value: 'N', help: 'GPUs that its applications may borrow at a time (default 0)' },
} as const
const WEIGHT = { type: 'string', value: 'W', help: 'share of seats relative to other tenants (default 1)' } as const

const TENANT_COLUMNS = [
  ...[field('id'), field('name'), figure('weight'), figure('calls_per_minute_max', 'calls/min')],
  ...[
    figure('live_programs_max', 'programs'),
    figure('shards'),
    figure('borrow_gpus_max', 'may borrow'),
    field('budget'),
    field('inference'),
    field('created_at', 'created'),
    field('disabled_at', 'disabled'),
  ],
]

function tenantFields(asked: Asked) {
  return bodyOf({
    name: asked.text('name'),
    weight: number(asked, 'weight'),
    calls_per_minute_max: number(asked, 'calls-per-minute', 'nullable'),
    live_programs_max: number(asked, 'live-programs', 'nullable'),
    shards: number(asked, 'shards'),
    borrow_gpus_max: number(asked, 'borrow-gpus'),
    budget: budgetOf(asked),
    inference: switchOf(asked, 'inference'),
    objective: asked.text('objective') === 'none' ? null : asked.text('objective'),
  })
}

const tenants: OperatorCommand[] = [
  {
    words: ['tenants', 'list'],
    lists: true,
    ...{ args: [], flags: {}, purpose: 'every tenant, with its share and limits' },
    run: async ({ client, limit }) => {
      const rows = await client.list('/tenants', {}, limit)
      return { kind: 'list', rows, columns: TENANT_COLUMNS, empty: 'There is no tenant.' }
    },
  },
  {
    words: ['tenants', 'get'],
    ...{ args: ['TENANT'], flags: {}, purpose: 'one tenant' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await client.one('GET', `/tenants/${at(id)}`) }),
  },
  {
    words: ['tenants', 'create'],
    args: [],
    flags: {
      name: { type: 'string', value: 'NAME', help: 'what people call it' },
      id: { type: 'string', value: 'ID', help: 'its id (default: made up)' },
      ...{ weight: WEIGHT, ...LIMITS },
    },
    ...{ required: ['name'], purpose: 'a new tenant' },
    run: async (asked) => {
      const body = { ...bodyOf({ id: asked.text('id') }), ...tenantFields(asked) }
      return { kind: 'one', row: await asked.client.one('POST', '/tenants', body) }
    },
  },
  {
    words: ['tenants', 'update'],
    args: ['TENANT'],
    flags: { name: { type: 'string', value: 'NAME', help: 'what people call it' }, weight: WEIGHT, ...LIMITS },
    purpose: 'changes its name, share or limits; calls see it within 10 s',
    run: async (asked) => {
      const [id = ''] = asked.args
      return { kind: 'one', row: await asked.client.one('PATCH', `/tenants/${at(id)}`, tenantFields(asked)) }
    },
  },
  ...(['disable', 'enable'] as const).map(
    (word): OperatorCommand => ({
      words: ['tenants', word],
      ...{ args: ['TENANT'], flags: {} },
      purpose: word === 'disable' ? 'its keys answer 403 within 10 s' : 'its keys work again',
      run: async ({ client, args: [id = ''] }) => ({
        kind: 'one',
        row: await client.one('PATCH', `/tenants/${at(id)}`, { disabled: word === 'disable' }),
      }),
    }),
  ),
]

/** `any`: null, no limit. */
const idsOrAny = (asked: Asked, flag: string) => (asked.text(flag) === 'any' ? null : ids(asked, flag))

const STRICT = { type: 'string', value: 'on|off', help: 'refuse fields of a body that have no effect' } as const

const keys: OperatorCommand[] = [
  {
    words: ['keys', 'list'],
    lists: true,
    ...{ args: ['TENANT'], flags: {}, purpose: 'a tenant’s keys by id, revoked ones included' },
    run: async ({ client, args: [tenant = ''], limit }) => {
      const rows = await client.list(`/tenants/${at(tenant)}/keys`, {}, limit)
      const held = [
        field('models'),
        field('regions'),
        field('strict'),
        field('budget'),
        field('created_at', 'created'),
        field('revoked_at', 'revoked'),
      ]
      return { kind: 'list', rows, columns: [field('id'), field('name'), ...held], empty: 'The tenant has no key.' }
    },
  },
  {
    words: ['keys', 'create'],
    args: ['TENANT'],
    flags: {
      name: { type: 'string', value: 'NAME', help: 'what people call it (default "default")' },
      models: { type: 'string', value: 'A,B', help: 'models that it may call (default: every one)' },
      regions: { type: 'string', value: 'A,B', help: 'regions that may serve its calls (default: every one)' },
      strict: STRICT,
      ...BUDGET_FLAGS,
    },
    purpose: 'a new key, shown only once',
    run: async (asked) => {
      const [tenant = ''] = asked.args
      const grants = {
        models: ids(asked, 'models'),
        regions: ids(asked, 'regions'),
        strict: switchOf(asked, 'strict'),
        budget: budgetOf(asked),
      }
      const body = bodyOf({ name: asked.text('name'), ...grants })
      return { kind: 'one', row: await asked.client.one('POST', `/tenants/${at(tenant)}/keys`, body), secret: 'key' }
    },
  },
  {
    words: ['keys', 'set'],
    args: ['TENANT', 'KEY-ID'],
    flags: {
      name: { type: 'string', value: 'NAME', help: 'what people call it' },
      models: { type: 'string', value: 'A,B|any', help: 'models that it may call' },
      regions: { type: 'string', value: 'A,B|any', help: 'regions that may serve its calls' },
      strict: STRICT,
      ...BUDGET_FLAGS,
    },
    purpose: 'changes what a key may do; calls see it within 10 s',
    run: async (asked) => {
      const [tenant = '', key = ''] = asked.args
      const named = { models: idsOrAny(asked, 'models'), regions: idsOrAny(asked, 'regions') }
      const grants = { ...named, strict: switchOf(asked, 'strict'), budget: budgetOf(asked) }
      const body = bodyOf({ name: asked.text('name'), ...grants })
      return { kind: 'one', row: await asked.client.one('PATCH', `/tenants/${at(tenant)}/keys/${at(key)}`, body) }
    },
  },
  {
    words: ['keys', 'revoke'],
    ...{ args: ['TENANT', 'KEY-ID'], flags: {}, purpose: 'the key stops working within 10 s' },
    run: async ({ client, args: [tenant = '', key = ''] }) => ({
      kind: 'one',
      row: await client.one('DELETE', `/tenants/${at(tenant)}/keys/${at(key)}`),
    }),
  },
]

const programs: OperatorCommand[] = [
  {
    words: ['programs', 'list'],
    lists: true,
    args: ['TENANT'],
    flags: {
      state: {
        type: 'string',
        value: 'running|ended',
        help: 'which ones (default: the running ones, then the ended ones)',
      },
    },
    purpose: 'a tenant’s programs, newest first',
    run: async (asked) => {
      const [tenant = ''] = asked.args
      const path = `/tenants/${at(tenant)}/programs`
      const listed = (state: string, limit: number) => asked.client.list(path, { state }, limit)
      const state = asked.text('state')
      const running = await listed(state ?? 'running', asked.limit)
      const left = asked.limit - running.length
      const rows = state === undefined && left > 0 ? [...running, ...(await listed('ended', left))] : running
      const counts = [figure('calls'), figure('open_calls', 'open'), figure('service_s', 'service s')]
      const times = [field('started_at', 'started'), field('ended_at', 'ended')]
      return {
        kind: 'list',
        rows,
        columns: [field('id'), field('state'), field('app'), ...counts, ...times],
        empty: 'The tenant has no program.',
      }
    },
  },
  {
    words: ['programs', 'get'],
    ...{ args: ['TENANT', 'PROGRAM'], flags: {}, purpose: 'its process-table entry' },
    run: async ({ client, args: [tenant = '', program = ''] }) => ({
      kind: 'one',
      row: await client.one('GET', `/tenants/${at(tenant)}/programs/${at(program)}`),
    }),
  },
  {
    words: ['programs', 'nice'],
    ...{ args: ['TENANT', 'PROGRAM', 'WEIGHT'], flags: {} },
    purpose: 'sets a program’s weight among the tenant’s own, from its next call on',
    run: async ({ client, args: [tenant = '', program = '', text = ''] }) => {
      const path = `/tenants/${at(tenant)}/programs/${at(program)}`
      return toldWeight(await client.one('PATCH', path, { weight: weightOf(text) }))
    },
  },
  {
    words: ['programs', 'end'],
    ...{ args: ['TENANT', 'PROGRAM'], flags: {}, purpose: 'ends a program; its open calls are cancelled' },
    run: async ({ client, args: [tenant = '', program = ''] }) =>
      toldEnded(await client.one('DELETE', `/tenants/${at(tenant)}/programs/${at(program)}`)),
  },
  {
    words: ['calls', 'list'],
    lists: true,
    ...{ args: ['TENANT', 'PROGRAM'], flags: {}, purpose: 'a program’s calls in order, with engines and reasons' },
    run: async ({ client, args: [tenant = '', program = ''], limit }) => {
      const calls = await client.list(`/tenants/${at(tenant)}/programs/${at(program)}/calls`, {}, limit)
      const rows = calls.map((call) => {
        const leases = call.leases as { engine: string; reason: string | null }[]
        return { ...call, engines: leases.map(({ engine }) => engine), reasons: leases.map(({ reason }) => reason) }
      })
      const figures = [
        figure('prompt_tokens', 'prompt'),
        figure('cached_tokens', 'cached'),
        figure('output_tokens', 'output'),
      ]
      const times = [figure('service_s', 'service s'), figure('wait_s', 'wait s')]
      const where = [field('engines', 'engine'), field('reasons', 'reason')]
      const columns = [field('id'), field('thread'), field('outcome'), ...figures, ...times, ...where]
      return { kind: 'list', rows, columns, empty: 'The program has no call.' }
    },
  },
]

export const TENANT_COMMANDS: readonly OperatorCommand[] = [...tenants, ...keys, ...programs]
