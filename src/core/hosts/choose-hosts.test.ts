import { expect, it } from 'vitest'
import { chooseHosts, type HostWish, type KnownHost } from './choose-hosts.ts'

function host(agent: string, change: Partial<KnownHost> = {}): KnownHost {
  return {
    ...{ agent, region: 'here', gpus: 4, lend: 'all', linked: true, draining: false, lent: false },
    needed_at_home: false,
    models: ['small', 'large'].map((model) => ({ model, kind: 'vllm', context_tokens_max: null, degrees: [1] })),
    home: [{ id: `${agent}-e0`, model: 'home', gpus: [0] }],
    ...change,
  }
}

const wish = (change: Partial<HostWish> = {}): HostWish => ({
  ...{ models: new Set(['small']), regions: null, gpus_max: 100 },
  ...change,
})
const nobody = () => new Set<string>()

function chosen(
  known: KnownHost[],
  change: Partial<HostWish> = {},
  served = nobody as (r: string, m: string) => Set<string>,
) {
  const choice = chooseHosts(known, wish(change), served)
  return choice.ok ? choice.hosts.map(({ agent, gpus }) => `${agent}:${gpus}`) : choice.reason
}

it('takes the largest first, up to the GPUs that the tenant may borrow', () => {
  const known = [host('a', { gpus: 2 }), host('b', { gpus: 8 }), host('c', { gpus: 4 })]
  expect(chosen(known)).toEqual(['b:8', 'c:4', 'a:2'])
  expect(chosen(known, { gpus_max: 9 })).toEqual(['b:8', 'c:1'])
})

it('leaves out hosts that cannot, and says why', () => {
  expect(chosen([host('a', { linked: false })])).toBe('No host can run this application. a: it is not linked.')
  expect(chosen([host('a', { draining: true })])).toMatch('a: the operator drains it')
  expect(chosen([host('a', { needed_at_home: true })])).toMatch('a: online calls need its own engines')
  expect(chosen([host('a')], { models: new Set(['small', 'x', 'y']) })).toMatch('a: it cannot start x, y')
  expect(chosen([host('a')], { regions: new Set(['there']) })).toMatch('its region here is not allowed')
  expect(chosen([])).toMatch('--lend')
})

it('prefers hosts that are free, and takes lent ones where there is no other', () => {
  expect(chosen([host('a', { lent: true, gpus: 8 }), host('b')])).toEqual(['b:4'])
  expect(chosen([host('a', { lent: true })])).toEqual(['a:4'])
})

it('a host that lends what is spare keeps the last engine of its models', () => {
  const spare = [host('a', { lend: 'spare', gpus: 8 }), host('b', { lend: 'spare' })]
  const only =
    (...agents: string[]) =>
    () =>
      new Set(agents)
  expect(chosen(spare, {}, only('a', 'b'))).toEqual(['a:8'])
  expect(chosen(spare, {}, only('a', 'b', 'c'))).toEqual(['a:8', 'b:4'])
  expect(chosen([host('a', { lend: 'spare' })], {}, only('a'))).toMatch('no other engine would serve home in here')
  expect(chosen([host('a')], {}, only('a'))).toEqual(['a:4'])
})

it('tells no more than some reasons', () => {
  const many = Array.from({ length: 20 }, (_, at) => host(`h${at}`, { linked: false }))
  expect(chosen(many)).toMatch('and 12 more')
})
