import { expect, it } from 'vitest'
import type { Desired } from './desired.ts'
import { type Change, type Present, planChanges } from './plan-changes.ts'
import { FILE_CHARS_MAX, readDesired } from './read-desired.ts'

const FILE = `regions:
  - id: eu
    position: 1
models:
  - id: m
    context_tokens_max: 8192
agents:
  - id: eu-1
    region: eu
    draining: true
tenants:
  - id: acme
    name: Acme
    weight: 2
    class_weights:
      app:research: 3
    keys:
      - name: laptop
        models: [m]
        strict: true
`
const EMPTY: Present = { regions: [], models: [], agents: [], tenants: [], keys: new Map() }

function desiredOf(text: string): Desired {
  const read = readDesired(text, 'f.yaml')
  if (read.status === 'wrong') throw new Error(read.faults.join('\n'))
  return read.desired
}

function faultsOf(text: string): readonly string[] {
  const read = readDesired(text, 'f.yaml')
  return read.status === 'wrong' ? read.faults : []
}

function changesOf(text: string, present: Present): readonly Change[] {
  const plan = planChanges(desiredOf(text), present)
  if (plan.status === 'refused') throw new Error(plan.reason)
  return plan.changes
}

/** As the API tells what FILE asks for. */
const THERE: Present = {
  regions: [{ id: 'eu', position: 1, location_hint: null, latitude: null, longitude: null }],
  models: [{ id: 'm', context_tokens_max: 8192, ordering_service: 'modelled', objective: 'response' }],
  agents: [{ id: 'eu-1', region: 'eu', state: 'draining' }],
  tenants: [{ id: 'acme', name: 'Acme', weight: 2, disabled_at: null, class_weights: { 'app:research': 3 } }],
  keys: new Map([['acme', [{ id: 'key-1', name: 'laptop', models: ['m'], regions: null, strict: true }]]]),
}

it('makes what is not there, regions first and keys last', () => {
  const changes = changesOf(FILE, EMPTY)
  expect(changes.map(({ action, object, request }) => [action, object, request.method, request.path])).toEqual([
    ['create', 'region eu', 'POST', '/regions'],
    ['create', 'model m', 'POST', '/models'],
    ['create', 'agent eu-1', 'POST', '/agents'],
    ['change', 'agent eu-1', 'POST', '/agents/eu-1/drain'],
    ['create', 'tenant acme', 'POST', '/tenants'],
    ['change', 'class acme/app:research', 'PATCH', '/classes/acme/app%3Aresearch'],
    ['create', 'key acme/laptop', 'POST', '/tenants/acme/keys'],
  ])
  expect(changes.filter(({ secret }) => secret !== undefined).map(({ secret }) => secret)).toEqual(['token', 'key'])
  expect(changes[4]?.request.body).toEqual({ id: 'acme', name: 'Acme', weight: 2 })
})

it('changes nothing of what is as the file says', () => {
  expect(changesOf(FILE, THERE)).toEqual([])
  expect(changesOf('', THERE)).toEqual([])
})

it('changes the fields that differ, and no other', () => {
  const file = FILE.replace('weight: 2', 'weight: 5')
    .replace('[m]', '[n, m]')
    .replace('draining: true', 'draining: false')
  expect(changesOf(file.replace('research: 3', 'research: 1'), THERE)).toEqual([
    {
      ...{ action: 'change', object: 'agent eu-1' },
      fields: [{ field: 'draining', before: true, after: false }],
      request: { method: 'POST', path: '/agents/eu-1/undrain' },
    },
    {
      ...{ action: 'change', object: 'tenant acme', fields: [{ field: 'weight', before: 2, after: 5 }] },
      request: { method: 'PATCH', path: '/tenants/acme', body: { weight: 5 } },
    },
    {
      ...{ action: 'change', object: 'class acme/app:research', fields: [{ field: 'weight', before: 3, after: 1 }] },
      request: { method: 'PATCH', path: '/classes/acme/app%3Aresearch', body: { weight: 1 } },
    },
    {
      ...{ action: 'change', object: 'key acme/laptop' },
      fields: [{ field: 'models', before: ['m'], after: ['n', 'm'] }],
      request: { method: 'PATCH', path: '/tenants/acme/keys/key-1', body: { models: ['n', 'm'] } },
    },
  ])
})

it('revokes a key, disables a tenant, and does neither twice', () => {
  const file = 'tenants: [{ id: acme, disabled: true, keys: [{ name: laptop, revoked: true }] }]'
  expect(changesOf(file, THERE).map(({ action, request }) => [action, request.method, request.path])).toEqual([
    ['change', 'PATCH', '/tenants/acme'],
    ['revoke', 'DELETE', '/tenants/acme/keys/key-1'],
  ])
  const done = { ...THERE, tenants: [{ ...THERE.tenants[0], disabled_at: 'now' }], keys: new Map([['acme', []]]) }
  expect(changesOf(file, done)).toEqual([])
})

it('refuses, before anything is sent, what the API cannot do', () => {
  const reason = (file: string, present = THERE) => {
    const plan = planChanges(desiredOf(file), present)
    return plan.status === 'refused' ? plan.reason : 'planned'
  }
  expect(reason('agents: [{ id: eu-1, region: us }]')).toContain('an agent does not move')
  expect(
    reason('agents: [{ id: old, region: eu }]', { ...EMPTY, agents: [{ id: 'old', state: 'removed' }] }),
  ).toContain('its id is not used again')
  expect(reason('models: [{ id: new, objective: response }]')).toContain('needs context_tokens_max')
  const twice = [{ name: 'laptop' }, { name: 'laptop' }]
  expect(reason(FILE, { ...THERE, keys: new Map([['acme', twice]]) })).toContain('2 keys of the name "laptop"')
})

it.each([
  [FILE.replace('weight: 2', 'wieght: 2'), 'f.yaml:14: tenants[0] has no field "wieght"'],
  [FILE.replace('weight: 2', 'weight: many'), 'f.yaml:14: tenants[0].weight: Invalid input: expected number'],
  [FILE.replace('weight: 2', 'weight: 0'), 'f.yaml:14: tenants[0].weight'],
  [FILE.replace('strict: true', 'strict: maybe'), 'f.yaml:20: tenants[0].keys[0].strict'],
  [FILE.replace('    region: eu\n', ''), 'f.yaml:8: agents[0].region is missing'],
  ['tenant: []', 'f.yaml:1: the file has no field "tenant"'],
  ['- a\n', 'f.yaml:1: the file'],
  ['tenants:\n  - id: a\n  - id: b\n  - id: a\n', 'f.yaml:4: tenant "a" is named twice'],
  ['regions:\n  - id: a\n    id: b\n', 'f.yaml:3: Map keys must be unique'],
  ['regions: [', 'f.yaml:1:'],
  [`${'#'.repeat(FILE_CHARS_MAX)}\n`, 'more than'],
])('names the line of what is wrong', (text, fault) => {
  expect(faultsOf(text).join('\n')).toContain(fault)
})

it('takes a file of the largest size', () => {
  expect(faultsOf('#'.repeat(FILE_CHARS_MAX))).toEqual([])
})

it('refuses a key in the file, and does not repeat it', () => {
  const key = `sk-sy-${'a'.repeat(48)}`
  const faults = faultsOf(`tenants:\n  - id: a\n    name: ${key}\n`)
  expect(faults[0]).toContain('f.yaml:3: this is a key or a token')
  expect(faults.join()).not.toContain(key)
})

it('sets the budgets of a tenant and a key, and nothing where they are as the file says, in any order', () => {
  const budget = { day: { tokens: 5, cost: 2 }, month: { calls: 9 } }
  const file = `tenants:
  - id: acme
    budget: {month: {calls: 9}, day: {cost: 2, tokens: 5}}
    keys:
      - name: laptop
        budget: {day: {calls: 1}}
`
  const key = { id: 'key-1', name: 'laptop', budget: { day: { calls: 1 } } }
  const present = (row: object, of_key: object): Present => ({
    ...EMPTY,
    tenants: [{ id: 'acme', disabled_at: null, ...row }],
    keys: new Map([['acme', [{ ...key, ...of_key }]]]),
  })
  expect(changesOf(file, present({ budget }, {}))).toEqual([])
  expect(changesOf(file, present({ budget: null }, { budget: null })).map(({ request }) => request.body)).toEqual([
    { budget },
    { budget: { day: { calls: 1 } } },
  ])
  expect(faultsOf(file.replace('calls: 9', 'steps: 9')).join()).toContain('steps')
})
