/** A pool with more engines than one actor leases for: its PoolActors, agents' links through the Worker, and a relay's leases. */
import { evictDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { AGENT_HEADER, TICKET_KID_HEADER } from '../../src/actors/link-frames.ts'
import { poolActor, poolStub } from '../../src/actors/stubs.ts'
import { SHARD_ENGINES_MAX } from '../../src/core/pool/pool-shards.ts'
import type { Pin } from '../../src/core/pool/pool-types.ts'
import { STATUS_INTERVAL_MS } from '../../src/protocol/link.ts'
import { CreditBook } from '../../src/relay/credit-book.ts'
import type { RelayDeps } from '../../src/relay/deps.ts'
import type { IdentifiedCall } from '../../src/relay/identify.ts'
import { lease } from '../../src/relay/lease.ts'
import { PoolMemory } from '../../src/relay/pool-memory.ts'
import { helloOf, MODEL, ORIGIN, provision, statusOf, TOKEN_EAST } from './fixtures.ts'
import { Link } from './link-client.ts'

/** Each test has a pool of its own. */
let region: Place = { id: 'us-east', location_hint: null }
let regions = 0
const MOST = SHARD_ENGINES_MAX - 4

interface Place {
  id: string
  location_hint: string | null
}

beforeAll(provision)

let links: Link[] = []
/** Reports of the agents: an engine that is not heard of for seconds is silent, and a test may take longer. */
let beats: ReturnType<typeof setInterval>[] = []
beforeEach(() => {
  region = { id: `region-${regions}`, location_hint: null }
  regions += 1
})
afterEach(() => {
  for (const beat of beats) clearInterval(beat)
  beats = []
  for (const link of links) link.socket.close(1000)
  links = []
})

function whole() {
  return poolActor(env, region, MODEL)
}

function helloWith(agent: string, engines: number) {
  const [engine] = helloOf().engines
  const all = Array.from({ length: engines }, (_, at) => ({
    ...(engine as NonNullable<typeof engine>),
    id: `${agent}-e${at}`,
  }))
  return helloOf({ agent, region: region.id, engines: all })
}

/** Opens links where the pool says, until one is welcomed. */
async function join(agent: string, engines: number): Promise<{ link: Link; shard: number; tries: number }> {
  for (let tries = 1; tries <= 3; tries += 1) {
    const shard = (await whole().placeAgent(agent)) as number
    const headers = { upgrade: 'websocket', [AGENT_HEADER]: agent, [TICKET_KID_HEADER]: 'kid' }
    const { webSocket } = await poolStub(env, region, MODEL, shard).fetch('https://pool/link', { headers })
    const link = new Link(webSocket as WebSocket)
    links.push(link)
    link.send(helloWith(agent, engines))
    const answer = await Promise.race([link.message().then(() => 'welcome' as const), link.closed()])
    if (answer === 'welcome') {
      reports(link, agent, engines)
      return { link, shard, tries }
    }
    expect(answer).toBe(1013)
  }
  throw new Error(`${agent} was not let in`)
}

function reports(link: Link, agent: string, engines: number): void {
  let seq = 0
  const beat = setInterval(() => {
    if (link.socket.readyState !== WebSocket.OPEN) return
    const ids = Array.from({ length: engines }, (_, at) => `${agent}-e${at}`)
    seq += 1
    link.send({ type: 'status', seq, engines: ids.flatMap((id) => statusOf(seq, { id }).engines) })
  }, STATUS_INTERVAL_MS)
  beats.push(beat)
}

/** An isolate that knows nothing yet. */
function relay(): { asked: (number | undefined)[]; deps: RelayDeps } {
  const asked: (number | undefined)[] = []
  const pools = new PoolMemory()
  const deps = {
    creditBook: new CreditBook(),
    ...{ pools, region_rtt_ms: 0, times: { pool_timeout_ms: 5_000 }, now: () => Date.now() },
    newId: () => crypto.randomUUID(),
    report: (event: string, error: unknown) => expect.fail(`${event}: ${error}`),
    pool: (place: Place, model: string, shard?: number) => {
      asked.push(shard)
      return poolActor(env, place, model, shard)
    },
  } as unknown as RelayDeps
  return { asked, deps }
}

function callOf(program: string, prompt_tokens_estimate = 10_000): IdentifiedCall {
  const named = { id: `call-${program}`, tenant: 'tenant-a', program, model: MODEL, class: 'tenant' }
  const places = { regions: [region], linked_regions: new Set([region.id]) }
  return { ...named, ...places, prompt_tokens_estimate } as unknown as IdentifiedCall
}

it('an agent for which a shard has no room gets another one, and stays there over restarts', async () => {
  expect(await join('large', MOST)).toMatchObject({ shard: 0, tries: 1 })
  // How many engines it has is known from its hello.
  expect(await join('second', 8)).toMatchObject({ shard: 1, tries: 2 })
  expect(await join('small', 4)).toMatchObject({ shard: 0, tries: 1 })
  const agents = () =>
    whole()
      .describe(0)
      .then(({ engines }) => new Set(engines.map(({ agent }) => agent)))
  expect(await agents()).toEqual(new Set(['large', 'small', 'second']))
  await evictDurableObject(poolStub(env, region, MODEL))
  await evictDurableObject(poolStub(env, region, MODEL, 1))
  expect(await agents()).toEqual(new Set(['large', 'small', 'second']))
  expect(await join('second', 8)).toMatchObject({ shard: 1, tries: 1 })
})

it('an agent finds its shard through the Worker', async () => {
  region = { id: 'us-east', location_hint: 'enam' }
  await join('large', SHARD_ENGINES_MAX)
  const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
  const path = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
  const { webSocket } = await exports.default.fetch(new Request(path, { headers }))
  const link = new Link(webSocket as WebSocket)
  links.push(link)
  link.send(helloOf())
  expect((await link.message()).type).toBe('welcome')
  const { engines } = await poolActor(env, region, MODEL, 1).describe(0)
  expect(engines.map(({ engine }) => engine)).toEqual(['agent-east-e0'])
})

it('calls are spread over shards, a program keeps its own, and a pin’s shard is asked first', async () => {
  await join('large', MOST)
  await join('second', MOST)
  const { asked, deps } = relay()
  const shards = new Map<string, number>()
  for (let at = 0; at < 40; at += 1) {
    const leasing = await lease(callOf(`p${at}`, 10), null, [], deps)
    if (leasing.status !== 'leased') throw new Error('no lease')
    shards.set(`p${at}`, leasing.leased.shard ?? 0)
    expect(leasing.leased.agent).toBe(leasing.leased.shard === 1 ? 'second' : 'large')
  }
  // The first call learns of the other shard, and each takes one request.
  expect(asked).toHaveLength(40)
  expect(new Set(shards.values())).toEqual(new Set([0, 1]))
  const pin: Pin = { region: region.id, model: MODEL, engine: 'second-e3', epoch: 'epoch-1' }
  const pinned = await lease(callOf('p0'), pin, [], deps)
  expect(pinned).toMatchObject({ leased: { engine: 'second-e3', shard: 1, reason: 'pinned' } })
  // So does an isolate that knows nothing of shards.
  const cold = relay()
  const again = await lease(callOf('p0'), pin, [], cold.deps)
  expect(again).toMatchObject({ leased: { engine: 'second-e3', shard: 1 } })
  expect(cold.asked).toEqual([undefined, 1])
})

it('what concerns an agent reaches it through the first shard, wherever it is', async () => {
  await join('large', SHARD_ENGINES_MAX)
  const { link } = await join('second', 2)
  await whole().cancel([
    { lease: 'a', agent: 'second' },
    { lease: 'b', agent: 'large' },
  ])
  expect(await link.message()).toEqual({ type: 'cancel', leases: ['a'] })
  const lost = whole().askForLost([{ lease: 'a', agent: 'second' }])
  const { id } = await link.message()
  link.send({ type: 'open', id, leases: [] })
  expect(await lost).toEqual(['a'])
  await whole().drainAgent({ agent: 'second', draining: true })
  expect(await link.message()).toEqual({ type: 'drain', engines: [] })
  const states = (await whole().describe(0)).engines.filter(({ agent }) => agent === 'second').map(({ state }) => state)
  expect(new Set(states)).toEqual(new Set(['draining']))
  await whole().refuseAgent({ agent: 'second', except_kid: null })
  await link.closed()
  await expect.poll(async () => (await whole().figures()).snapshot.engines.length).toBe(SHARD_ENGINES_MAX)
})

it('a shard is given up when its engines fit into the others, and calls go on', async () => {
  const { link: large } = await join('large', SHARD_ENGINES_MAX)
  const { link } = await join('second', 8)
  const { asked, deps } = relay()
  expect(
    await lease(callOf('before'), { region: region.id, model: MODEL, engine: 'second-e0', epoch: 'epoch-1' }, [], deps),
  ).toMatchObject({ leased: { shard: 1 } })
  large.socket.close(1000)
  expect(await link.closed()).toBe(1013)
  expect(await join('second', 8)).toMatchObject({ shard: 0, tries: 1 })
  asked.length = 0
  // The isolate still takes it to be in the second shard. That one has nobody, so the first is asked, and tells.
  const pin: Pin = { region: region.id, model: MODEL, engine: 'second-e0', epoch: 'epoch-1' }
  const leasing = await lease(callOf('after'), pin, [], deps)
  expect(leasing).toMatchObject({ leased: { engine: 'second-e0', reason: 'pinned' } })
  expect(asked).toEqual([1, undefined])
  asked.length = 0
  expect(await lease(callOf('later'), pin, [], deps)).toMatchObject({ leased: { engine: 'second-e0' } })
  expect(asked).toEqual([undefined])
})
