/** Played on the simulator, small: chats on a few engines. */
import { describe, expect, it } from 'vitest'
import { runPoints } from '../run/run-all.ts'
import type { RunPlan } from '../run/run-plan.ts'
import { parseFleetFlags, parseQuotaFlags } from './fleet-flags.ts'
import { type PlayPoints, searchFleets } from './fleet-search.ts'

function flagsOf(...argv: string[]) {
  const flags = parseFleetFlags(argv)
  if (!flags.ok) throw new Error(flags.reason)
  return flags.plan
}

function reasonOf(...argv: string[]): string {
  const flags = parseFleetFlags(argv)
  return flags.ok ? 'taken' : flags.reason
}

describe('the flags of plan', () => {
  it('take one target and a range of engines', () => {
    expect(flagsOf('--p95-ms', '60')).toMatchObject({
      target: { measure: 'ms_per_token', at_most: 60 },
      ...{ range: { min: 1, max: 64 }, gpu_cost: null },
    })
    expect(flagsOf('--p95-s', '9', '--engines', '2..5', '--gpu-cost', '2.5')).toMatchObject({
      target: { measure: 'program_s', at_most: 9 },
      ...{ range: { min: 2, max: 5 }, gpu_cost: 2.5 },
    })
    expect(flagsOf('--p95-s', '9', '--engines', '3').range).toEqual({ min: 3, max: 3 })
  })

  it('refuse what says nothing or contradicts itself', () => {
    expect(reasonOf()).toMatch('say what is to be met: --p95-ms')
    expect(reasonOf('--p95-ms', '1', '--p95-s', '1')).toMatch('say what is to be met')
    expect(reasonOf('--p95-ms', '0')).toMatch('--p95-ms must be a number above 0')
    expect(reasonOf('--p95-ms', '1', '--engines', '4..2')).toMatch('ends before it begins')
    expect(reasonOf('--p95-ms', '1', '--engines', '1..2..3')).toMatch('FROM..TO')
    expect(reasonOf('--p95-ms', '1', '--engines', '0..2')).toMatch('--engines must be an integer from 1')
    expect(reasonOf('--p95-ms', '1', '--gpu-cost', '-1')).toMatch('ambiguous')
    expect(reasonOf('--p95-ms', '1', '--gpu-cost', '0')).toMatch('--gpu-cost must be')
    expect(reasonOf('--p95-ms', '1', '--regions', 'us:1')).toMatch("Unknown option '--regions'")
    expect(reasonOf('--p95-ms', '1', '--profile', 'a100-8b,none')).toMatch('--profile: ')
  })

  it('play a trace as it was recorded, once, and drawn programs with three seeds', () => {
    const trace = flagsOf('--p95-ms', '1', '--trace', import.meta.filename).plans[0]
    expect(trace).toMatchObject({ arrivals: { kind: 'trace' }, rates: [1], seeds: [1], programs: 1_000_000 })
    const faster = flagsOf('--p95-ms', '1', '--trace', import.meta.filename, '--rate', '2').plans[0]
    expect(faster).toMatchObject({ arrivals: { kind: 'poisson' }, rates: [2], seeds: [1, 2, 3], programs: 500 })
    expect(flagsOf('--p95-ms', '1').plans[0]).toMatchObject({ rates: [1], seeds: [1, 2, 3], programs: 500 })
  })
})

describe('the flags of quota', () => {
  const quota = (...argv: string[]) => parseQuotaFlags(['--p95-s', '9', '--quota', 'requests=60/min', ...argv])

  it('multiply limits, which the queue orders calls before', () => {
    expect(quota('--times', '2..8')).toMatchObject({
      ok: true,
      plan: { range: { min: 2, max: 8 }, plans: [{ fronts: ['queue'], provider: { limits: [{ amount: 60 }] } }] },
    })
  })

  it.each([
    [['--times', '4..2'], '--times 4..2 ends before it begins'],
    [['--times', '0'], '--times must be an integer from 1'],
    [['--engines', '2'], "Unknown option '--engines'"],
    [['--front', 'engine'], 'leave --front out'],
    [['--policy', 'lamps'], 'no other server lets a queue before it do that'],
  ])('refuse %j', (argv, reason) => {
    expect(quota(...argv)).toMatchObject({ ok: false, reason: expect.stringContaining(reason) })
  })
})

describe('the search', { timeout: 60_000 }, () => {
  const on =
    (plan: RunPlan): PlayPoints =>
    (points) =>
      runPoints(plan, points, { threads: 1 })
  const argv = ['--workload', 'sharegpt', '--programs', '60', '--rate', '20', '--seed', '1,2']

  it('finds the size at which the target is met, and has played one engine fewer', async () => {
    const { plans, range } = flagsOf(...argv, '--p95-ms', '1', '--max-seqs', '4')
    const [plan] = plans
    if (plan === undefined) throw new Error('no plan')
    const all = await searchFleets(plan, { measure: 'ms_per_token', at_most: 1e9 }, range, on(plan))
    expect(all).toMatchObject([
      { profile: 'a100-8b', gpus: 1, policy: 'plas', fewest_engines: 1, played: [{ engines: 1 }] },
    ])
    const alone_ms = all[0]?.played[0]?.p95 ?? 0
    const target = { measure: 'ms_per_token', at_most: alone_ms * 0.8 } as const
    const [found] = await searchFleets(plan, target, { min: 1, max: 8 }, on(plan))
    const fewest = found?.fewest_engines ?? 0
    expect(fewest).toBeGreaterThan(1)
    const p95 = new Map(found?.played.map((size) => [size.engines, size.p95]))
    expect(p95.get(fewest)).toBeLessThanOrEqual(target.at_most)
    expect(p95.get(fewest - 1)).toBeGreaterThan(target.at_most)
  })

  it('says that none of the range is enough', async () => {
    const { plans, target } = flagsOf(...argv, '--p95-ms', '0.000001')
    const [plan] = plans
    if (plan === undefined) throw new Error('no plan')
    const [found] = await searchFleets(plan, target, { min: 1, max: 3 }, on(plan))
    expect(found?.fewest_engines).toBeNull()
    expect(found?.played.map(({ engines }) => engines)).toEqual([1, 2, 3])
  })
})
