import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EngineDescription } from '../../protocol/index.ts'
import { STATUS_LOAD_INTERVAL_MS } from '../../protocol/link.ts'
import { description, report, request } from '../testing/builders.ts'
import { BALANCER_DEFAULT, BALANCER_NAMES, createBalancer } from './balancers/index.ts'
import { LEASE_UNSEEN_EXPIRY_MS, LEASES_SINCE_MAX } from './leases-since.ts'
import { SILENT_AFTER_MS } from './pool-engine.ts'
import {
  AGENTS_PER_POOL_MAX,
  type CreditedLease,
  LEASE_HOLDERS_MAX,
  PoolTable,
  SNAPSHOT_REFRESH_MS,
} from './pool-table.ts'
import { SPILL_LOAD } from './pool-types.ts'

const POOL = { region: 'region', model: 'model' }

function hello(agent: string, engines: Partial<EngineDescription>[] = [{}]) {
  return {
    agent,
    ...POOL,
    url: `http://${agent}`,
    engines: engines.map((of) => description({ id: `${agent}-e0`, ...of })),
  }
}

function pool(...agents: string[]): PoolTable {
  const table = new PoolTable(POOL)
  for (const agent of agents) table.agentJoined(hello(agent), 0)
  return table
}

const only = (table: PoolTable, now_ms = 0) => table.snapshot(now_ms).engines[0]

describe('leases that isolates grant themselves', () => {
  const lease = (of: Partial<CreditedLease> = {}): CreditedLease => ({
    ...request({ lease: 'by-credit', prompt_tokens_estimate: 4000 }),
    ...{ agent: 'a', engine: 'a-e0', epoch: description().epoch, ...of },
  })

  it('are no load, which reports tell, and bring the program home', () => {
    const table = pool('a', 'b')
    expect(table.leasedByCredit(lease(), 0)).toBe(-1)
    expect(only(table)).toMatchObject({ leases_since_report: 0, queued_tokens: 0 })
    expect(table.leaseHolder('by-credit')).toEqual({ agent: 'a', engine: 'a-e0' })
    const next = table.choose(request({ lease: 'next', prompt_tokens_estimate: 4000 }), 0)
    expect(next).toMatchObject({ engine: 'a-e0', reason: 'pinned' })
  })

  it('bring what their calls were charged to the program', () => {
    const table = pool('a')
    table.leasedByCredit(lease(), 0)
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0', charges: [['by-credit', 9, 7]] })] }, 0)
    expect(table.chargesOf(request())).toMatchObject([{ lease: 'by-credit' }])
  })

  it.each<[string, Partial<CreditedLease>]>([
    ['of another epoch', { epoch: 'next' }],
    ['of an engine that has left', { engine: 'b-e0' }],
    ['of an agent that has left', { agent: 'b' }],
  ])('%s are not known', (_, of) => {
    const table = pool('a')
    expect(table.leasedByCredit(lease(of), 0)).toBeNull()
    expect(table.leaseHolder('by-credit')).toBeNull()
  })

  it('are allowed by the balancer that leaves programs at home, and only while the agent is not drained', () => {
    const seats = { seats: 40 }
    const at = { agent: 'a', engine: 'a-e0' }
    const table = new PoolTable(POOL)
    table.agentJoined(hello('a', [seats]), 0)
    expect(table.creditsOn(at, 0)).toBe(10)
    table.setDraining('a', true, 0)
    expect(table.creditsOn(at, 0)).toBe(0)
    expect(table.creditsOn({ agent: 'b', engine: 'b-e0' }, 0)).toBe(0)
    for (const name of BALANCER_NAMES.filter((one) => one !== BALANCER_DEFAULT)) {
      const other = new PoolTable(POOL, createBalancer(name))
      other.agentJoined(hello('a', [seats]), 0)
      expect(other.creditsOn(at, 0), name).toBe(0)
    }
  })
})

describe('a program’s KV cache', () => {
  const ask = (table: PoolTable, lease: string, of: Parameters<typeof request>[0] = {}) => {
    const choice = table.choose(request({ lease, prompt_tokens_estimate: 4000, ...of }), 0)
    if (choice.status !== 'leased') throw new Error(choice.status)
    return choice
  }

  it('draws the program’s next call, though no pin says where it is', () => {
    const table = pool('a', 'b', 'c')
    const first = ask(table, 'one')
    for (let other = 0; other < 5; other += 1) ask(table, `other-${other}`, { program: `other-${other}` })
    expect(ask(table, 'two')).toMatchObject({ engine: first.engine, reason: 'pinned' })
  })

  it('is gone with the epoch of its engine', () => {
    const table = pool('a')
    ask(table, 'one')
    const restarted = { ...hello('a'), engines: [description({ id: 'a-e0', epoch: 'next' })] }
    table.agentJoined(restarted, 0)
    expect(ask(table, 'two').reason).toBe('pin_created')
  })

  it('leaves less to prefill: what the engine holds is no work in its queue', () => {
    const table = pool('a')
    ask(table, 'one')
    expect(only(table)?.queued_tokens).toBe(4000)
    ask(table, 'two', { prompt_tokens_estimate: 5000 })
    expect(only(table)?.queued_tokens).toBeLessThan(4000 + 1000)
  })
})

describe('charges of open leases', () => {
  const charged = (
    table: PoolTable,
    charges: [string, number, number][],
    of: { seq?: number; agent?: string; epoch?: string } = {},
  ) => {
    const { seq = 1, agent = 'a', epoch = 'epoch' } = of
    table.agentStatus(agent, { seq, engines: [report({ id: `${agent}-e0`, epoch, charges })] }, 0)
    return table.chargesOf(request()).map(({ lease }) => lease)
  }

  it('are believed of the agent that was granted the lease', () => {
    const table = pool('a', 'b')
    table.choose(request({ lease: 'l', excluded_engines: ['b-e0'] }), 0)
    expect(charged(table, [['l', 9, 9]], { agent: 'b' })).toEqual([])
    expect(charged(table, [['l', 9, 9], ['never granted', 9, 9]])).toEqual(['l']) // biome-ignore format: one report
  })

  it('end with the engine’s epoch and with its agent', () => {
    for (const end of ['epoch', 'agent']) {
      const table = pool('a')
      table.choose(request({ lease: 'l' }), 0)
      expect(charged(table, [['l', 9, 9]])).toEqual(['l'])
      if (end === 'agent') table.agentLeft('a', 0)
      else table.agentStatus('a', { seq: 2, engines: [report({ id: 'a-e0', epoch: 'next' })] }, 0)
      expect(table.chargesOf(request())).toEqual([])
    }
  })
})

describe('leases since the report', () => {
  it('spread 200 calls at once on a stale report within 20 % of even', () => {
    const table = pool('a', 'b', 'c', 'd')
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0', running: 5 })] }, 1)
    const counts = new Map<string, number>()
    for (let call = 0; call < 200; call += 1) {
      const choice = table.choose(request({ lease: `lease-${call}` }), 2)
      if (choice.status === 'leased') counts.set(choice.engine, (counts.get(choice.engine) ?? 0) + 1)
    }
    for (const count of counts.values()) expect(Math.abs(count - 50)).toBeLessThanOrEqual(10)
    expect(counts.size).toBe(4)
  })

  it('count until a report lists them', () => {
    const table = pool('a')
    table.choose(request({ lease: 'one', prompt_tokens_estimate: 70 }), 0)
    table.choose(request({ lease: 'two', program: 'other', prompt_tokens_estimate: 30 }), 0)
    expect(only(table)).toMatchObject({ leases_since_report: 2, queued_tokens: 100 })
    const seen = report({ id: 'a-e0', running: 1, queued_tokens: 70, leases_seen: ['one', 'never granted'] })
    table.agentStatus('a', { seq: 1, engines: [seen] }, 1)
    expect(only(table, 1)).toMatchObject({ leases_since_report: 1, running: 1, queued_tokens: 100 })
  })

  it('of offline calls are no load for online ones once a report tells of them', () => {
    const table = pool('a')
    table.choose(request({ lease: 'one', offline: true }), 0)
    expect(table.choose(request({ lease: 'two' }), 0)).toMatchObject({ load: -7 / 8 })
    const seen = report({ id: 'a-e0', running: 1, offline: 1, leases_seen: ['one', 'two'] })
    table.agentStatus('a', { seq: 1, engines: [seen] }, 1)
    expect(only(table, 1)).toMatchObject({ running: 1, offline: 1 })
    expect(table.choose(request({ lease: 'three' }), 1)).toMatchObject({ load: -1 })
  })

  it('count until they are taken back', () => {
    const table = pool('a')
    table.choose(request({ lease: 'one' }), 0)
    expect(table.leaseHolder('one')).toEqual({ agent: 'a', engine: 'a-e0' })
    expect([table.released('one'), table.released('one')]).toEqual([true, false])
    expect(only(table)).toMatchObject({ leases_since_report: 0, queued_tokens: 0 })
    expect(table.leaseHolder('one')).toBeNull()
  })

  it('count until they expire, and not longer', () => {
    const table = pool('a')
    table.choose(request({ lease: 'one' }), 0)
    expect(only(table, LEASE_UNSEEN_EXPIRY_MS - 1)?.leases_since_report).toBe(1)
    expect(only(table, LEASE_UNSEEN_EXPIRY_MS)?.leases_since_report).toBe(0)
  })

  it('count once when the same lease is asked for again', () => {
    const table = pool('a', 'b')
    table.choose(request({ lease: 'one' }), 0)
    table.choose(request({ lease: 'one', excluded_engines: ['a-e0'] }), 0)
    expect(table.snapshot(0).engines.map((engine) => engine.leases_since_report)).toEqual([0, 1])
  })

  it(`are at most ${LEASES_SINCE_MAX} per engine`, () => {
    const table = pool('a')
    for (let lease = 0; lease <= LEASES_SINCE_MAX; lease += 1) table.choose(request({ lease: `lease-${lease}` }), 0)
    expect(only(table)?.leases_since_report).toBe(LEASES_SINCE_MAX)
  })

  it(`are remembered with their holders up to ${LEASE_HOLDERS_MAX}, the oldest forgotten first`, () => {
    const table = pool('a')
    for (let lease = 0; lease < LEASE_HOLDERS_MAX; lease += 1) table.choose(request({ lease: `lease-${lease}` }), 0)
    expect(table.leaseHolder('lease-0')).not.toBeNull()
    table.choose(request({ lease: 'one more' }), 0)
    expect([table.leaseHolder('lease-0'), table.leaseHolder('lease-1')]).toEqual([null, { agent: 'a', engine: 'a-e0' }])
  })

  it('die with their engine’s epoch', () => {
    const table = pool('a')
    table.choose(request({ lease: 'one' }), 0)
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0', epoch: 'later' })] }, 1)
    expect(only(table, 1)).toMatchObject({ epoch: 'later', leases_since_report: 0 })
  })
})

describe('reports', () => {
  it('that are repeated or overtaken are dropped', () => {
    const table = pool('a')
    const status = (seq: number, waiting: number) =>
      table.agentStatus('a', { seq, engines: [report({ id: 'a-e0', waiting })] }, 1)
    expect([status(5, 1), status(5, 2), status(4, 3)]).toEqual(['applied', 'old', 'old'])
    expect(only(table, 1)?.waiting).toBe(1)
  })

  it('begin anew with a new link, which keeps the leases of an unchanged epoch', () => {
    const table = pool('a')
    table.agentStatus('a', { seq: 9, engines: [report({ id: 'a-e0', running: 3 })] }, 1)
    table.choose(request({ lease: 'one' }), 1)
    table.agentJoined(hello('a'), 2)
    expect(only(table, 2)).toMatchObject({ leases_since_report: 1, running: 3 })
    expect(table.agentStatus('a', { seq: 0, engines: [report({ id: 'a-e0' })] }, 3)).toBe('applied')
    table.agentJoined(hello('a', [{ epoch: 'later' }]), 4)
    expect(only(table, 4)).toMatchObject({ leases_since_report: 0, running: 0 })
  })

  it('of strangers change nothing', () => {
    const table = pool('a')
    expect(table.agentStatus('nobody', { seq: 1, engines: [report()] }, 1)).toBe('unknown_agent')
    expect(table.agentStatus('a', { seq: 1, engines: [report({ id: 'another', waiting: 5 })] }, 1)).toBe('applied')
    expect(only(table, 1)?.waiting).toBe(0)
  })

  it('that stay away make an engine silent, until the next', () => {
    const table = pool('a')
    expect(only(table, SILENT_AFTER_MS)?.state).toBe('ready')
    expect(only(table, SILENT_AFTER_MS + 1)?.state).toBe('silent')
    expect(table.choose(request(), SILENT_AFTER_MS + 1).status).toBe('none')
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0' })] }, 9000)
    expect(table.choose(request(), 9000).status).toBe('leased')
  })

  it('that say draining or down stop leases', () => {
    const table = pool('a', 'b')
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0', state: 'draining' })] }, 1)
    expect(table.choose(request(), 1)).toMatchObject({ engine: 'b-e0', url: 'http://b', agent: 'b' })
    table.agentStatus('b', { seq: 1, engines: [report({ id: 'b-e0', state: 'down' })] }, 1)
    expect(table.choose(request(), 1)).toMatchObject({ status: 'none' })
  })

  it('are averaged into the pool’s bytes per token', () => {
    const table = pool('a', 'b', 'c')
    expect(table.snapshot(0).bytes_per_token).toBeNull()
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0', bytes_per_token: 3 })] }, 1)
    table.agentStatus('b', { seq: 1, engines: [report({ id: 'b-e0', bytes_per_token: 4 })] }, 1)
    expect(table.snapshot(1).bytes_per_token).toBe(3.5)
  })
})

describe('membership', () => {
  it('takes agents of this pool alone, and so many', () => {
    const table = pool(...Array.from({ length: AGENTS_PER_POOL_MAX }, (_, index) => `agent-${index}`))
    expect(table.agentJoined(hello('one more'), 0)).toBe('full')
    expect(table.agentJoined(hello('agent-0'), 0)).toBe('joined')
    expect(table.agentJoined({ ...hello('agent-0'), region: 'other' }, 0)).toBe('wrong_pool')
    expect(table.agentJoined({ ...hello('agent-0'), model: 'other' }, 0)).toBe('wrong_pool')
    expect(table.agents).toHaveLength(AGENTS_PER_POOL_MAX)
  })

  it('loses the engines of an agent that left', () => {
    const table = pool('a')
    table.choose(request({ lease: 'one' }), 0)
    expect([table.agentLeft('a', 1), table.agentLeft('a', 1)]).toEqual([true, false])
    expect(table.choose(request(), 1).status).toBe('none')
    expect(table.released('one')).toBe(true)
  })

  it('survives a restart: members take leases at once and fall silent if they are not heard of', () => {
    const table = PoolTable.restore(POOL, pool('a').membership(), 7, 50_000)
    expect(table.version).toBe(7)
    expect(table.choose(request(), 50_000)).toMatchObject({ status: 'leased', engine: 'a-e0', epoch: 'epoch' })
    expect(table.choose(request(), 50_001 + SILENT_AFTER_MS).status).toBe('none')
    expect(table.agentStatus('a', { seq: 3, engines: [report({ id: 'a-e0' })] }, 60_000)).toBe('applied')
  })
})

describe('the snapshot’s version', () => {
  it('grows at once when an engine comes, goes, drains or restarts, and for loads once per interval', () => {
    const table = pool('a')
    const grows = (change: () => void) => {
      const before = table.version
      change()
      return table.version > before
    }
    const status = (of: Parameters<typeof report>[0], seq: number, now_ms: number) => () =>
      table.agentStatus('a', { seq, engines: [report({ id: 'a-e0', ...of })] }, now_ms)
    expect(grows(status({ waiting: 1 }, 1, 10))).toBe(false)
    expect(grows(status({ waiting: 2 }, 2, SNAPSHOT_REFRESH_MS))).toBe(true)
    expect(grows(status({ waiting: 3 }, 3, SNAPSHOT_REFRESH_MS + 1))).toBe(false)
    expect(grows(status({ state: 'draining' }, 4, SNAPSHOT_REFRESH_MS + 2))).toBe(true)
    expect(grows(status({ state: 'draining', epoch: 'later' }, 5, SNAPSHOT_REFRESH_MS + 3))).toBe(true)
    expect(grows(() => table.agentJoined(hello('b'), SNAPSHOT_REFRESH_MS + 4))).toBe(true)
    expect(grows(() => table.agentLeft('b', SNAPSHOT_REFRESH_MS + 5))).toBe(true)
    expect(grows(() => table.choose(request(), SNAPSHOT_REFRESH_MS + 6))).toBe(false)
  })
})

describe('an agent that the operator drains', () => {
  it('gets no lease until it is undrained, even after new reports and another hello', () => {
    const table = pool('a', 'b')
    expect(table.setDraining('nobody', true, 1)).toBe(false)
    const before = table.version
    expect(table.setDraining('a', true, 1)).toBe(true)
    expect(table.version).toBeGreaterThan(before)
    table.agentStatus('a', { seq: 1, engines: [report({ id: 'a-e0' })] }, 2)
    table.agentJoined(hello('a'), 3)
    expect(table.snapshot(4).engines.map(({ state }) => state)).toEqual(expect.arrayContaining(['draining', 'ready']))
    const chosen = Array.from({ length: 8 }, (_, i) => table.choose(request({ lease: `lease-${i}` }), 5))
    expect(new Set(chosen.map((choice) => choice.status === 'leased' && choice.agent))).toEqual(new Set(['b']))
    table.setDraining('a', false, 6)
    const again = Array.from({ length: 16 }, (_, i) => table.choose(request({ lease: `again-${i}` }), 7))
    expect(again.some((choice) => choice.status === 'leased' && choice.agent === 'a')).toBe(true)
  })
})

describe('a bound on the load, between two reports', () => {
  /** Four seats are taken at every report. In between `began` calls come, and as many end. */
  const busyAfter = (began: number) => {
    const table = new PoolTable(POOL)
    table.agentJoined(hello('a', [{ seats: 4 }]), 0)
    let leases: string[] = []
    const ask = (now_ms: number, max_load: number | null) => {
      leases.push(`l${now_ms}`)
      return table.choose(request({ lease: `l${now_ms}`, max_load }), now_ms)
    }
    let now_ms = 0
    for (let seq = 0; seq < 4; seq += 1) {
      table.agentStatus('a', { seq, engines: [report({ id: 'a-e0', running: 4, leases_seen: leases })] }, now_ms)
      leases = []
      for (let call = 1; call <= began; call += 1) ask(now_ms + call * (STATUS_LOAD_INTERVAL_MS / (began + 1)), null)
      now_ms += STATUS_LOAD_INTERVAL_MS
    }
    table.agentStatus('a', { seq: 4, engines: [report({ id: 'a-e0', running: 4, leases_seen: leases })] }, now_ms)
    return Array.from({ length: 8 }, (_, call) => ask(now_ms + (call + 1) * 30, SPILL_LOAD).status).indexOf('busy')
  }

  it('does not count calls that have probably ended, and counts all where none ends', () => {
    expect(busyAfter(0)).toBe(2)
    expect(busyAfter(6)).toBeGreaterThan(4)
  })

  it('is reached by calls that come at once, however many ended before', () => {
    const table = new PoolTable(POOL)
    table.agentJoined(hello('a', [{ seats: 4 }]), 0)
    for (let seq = 0; seq < 4; seq += 1) {
      const leases_seen = Array.from({ length: 100 }, (_, call) => `${seq}-${call}`)
      const engines = [report({ id: 'a-e0', running: 4, leases_seen })]
      table.agentStatus('a', { seq, engines }, seq * STATUS_LOAD_INTERVAL_MS)
    }
    const now_ms = 3 * STATUS_LOAD_INTERVAL_MS
    const asked = Array.from({ length: 4 }, (_, call) =>
      table.choose(request({ lease: `now-${call}`, max_load: SPILL_LOAD }), now_ms),
    )
    expect(asked.map(({ status }) => status)).toEqual(['leased', 'leased', 'busy', 'busy'])
  })
})

describe('an engine’s id', () => {
  it('has one owner: another agent may not name it, nor one agent twice', () => {
    const table = pool('a')
    expect(table.agentJoined(hello('b', [{ id: 'a-e0' }]), 1)).toBe('engine_taken')
    expect(table.agentJoined(hello('b', [{ id: 'b-e0' }, { id: 'b-e0' }]), 1)).toBe('engine_taken')
    expect(table.agents).toEqual(['a'])
    expect(table.agentJoined(hello('a'), 2)).toBe('joined')
    table.agentLeft('a', 3)
    expect(table.agentJoined(hello('b', [{ id: 'a-e0' }]), 4)).toBe('joined')
  })

  it('belongs to the pool’s model', () => {
    expect(pool().agentJoined(hello('a', [{ model: 'another' }]), 0)).toBe('wrong_pool')
  })
})

describe('a snapshot', () => {
  const step = fc.record({
    what: fc.constantFrom(
      'choose' as const,
      'report' as const,
      'release' as const,
      'drain' as const,
      'rejoin' as const,
    ),
    agent: fc.constantFrom('a', 'b'),
    number: fc.nat(5),
    later_ms: fc.constantFrom(0, 1, 500, SILENT_AFTER_MS + 1, LEASE_UNSEEN_EXPIRY_MS),
  })

  it('is the same however often the pool was looked at before', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const [watched, other] = [pool('a', 'b'), pool('a', 'b')]
        let now_ms = 0
        for (const [seq, { what, agent, number, later_ms }] of steps.entries()) {
          now_ms += later_ms
          for (const table of [watched, other]) {
            const seen = { id: `${agent}-e0`, running: number, leases_seen: [`lease-${number}`] }
            if (what === 'choose') table.choose(request({ lease: `lease-${number}` }), now_ms)
            else if (what === 'report') table.agentStatus(agent, { seq, engines: [report(seen)] }, now_ms)
            else if (what === 'release') table.released(`lease-${number}`)
            else if (what === 'drain') table.setDraining(agent, number > 2, now_ms)
            else table.agentJoined(hello(agent, [{ epoch: number > 2 ? 'epoch' : 'later' }]), now_ms)
          }
          watched.snapshot(now_ms)
        }
        expect(watched.snapshot(now_ms).engines).toEqual(other.snapshot(now_ms).engines)
      }),
    )
  })

  it('is a copy: what becomes of it changes nothing in the pool', () => {
    const table = pool('a')
    const [taken] = table.snapshot(0).engines
    if (taken !== undefined) taken.leases_since_report += 5
    expect(only(table)?.leases_since_report).toBe(0)
  })
})
