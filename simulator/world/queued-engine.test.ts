/** The agent's queue on the virtual clock: in front of engines that serve first come, first served, and of a provider with limits. */
import { describe, expect, it } from 'vitest'
import { frontConfigOf } from '../run/front-config.ts'
import { pointsOf } from '../run/play-plan.ts'
import { parseRunFlags } from '../run/run-flags.ts'
import { WorkloadPrograms } from '../run/workload-programs.ts'
import { type SimulationResult, simulate } from '../simulation.ts'

function played(...argv: string[]): { result: SimulationResult; calls: number; output_tokens: number }[] {
  const flags = parseRunFlags(argv)
  if (!flags.ok) expect.fail(flags.reason)
  const programs = new WorkloadPrograms(flags.plan).of(1)
  const calls = programs.flatMap((program) => program.calls)
  const output_tokens = calls.reduce((sum, call) => sum + call.output_tokens, 0)
  return pointsOf(flags.plan).map((point) => {
    const result = simulate(frontConfigOf(flags.plan, point, programs, []))
    return { result, calls: calls.length, output_tokens }
  })
}

const meanMs = ({ programs }: SimulationResult): number =>
  programs.reduce((sum, { response_us, output_tokens }) => sum + response_us / output_tokens, 0) / programs.length

describe('the queue before engines that order nothing', () => {
  const overload = [
    '--workload',
    'sharegpt',
    '--programs',
    '60',
    '--arrivals',
    'burst',
    '--max-seqs',
    '4',
    '--front',
    'queue',
  ]

  it.each(['fcfs', 'plas', 'learned', 'wsrpt'])('serves every call whole under %s', (policy) => {
    const [run] = played(...overload, '--policy', policy)
    expect(run?.result).toMatchObject({ calls: run?.calls, output_tokens: run?.output_tokens })
    expect(run?.result.programs.every(({ response_us }) => response_us > 0)).toBe(true)
  })

  it('orders: the clairvoyant order is better than first come, first served', () => {
    const [fcfs, wsrpt] = played(...overload, '--policy', 'fcfs,wsrpt').map(({ result }) => meanMs(result))
    expect(wsrpt).toBeLessThan(0.8 * (fcfs ?? 0))
  })

  it('gives the same bytes for the same seed, and jumps change nothing', () => {
    const [one] = played(...overload, '--policy', 'plas')
    const [again] = played(...overload, '--policy', 'plas', '--steps', 'single')
    expect(again?.result.programs).toEqual(one?.result.programs)
  })

  it('refuses policies that handle memory', () => {
    expect(parseRunFlags([...overload, '--policy', 'lamps'])).toMatchObject({ ok: false })
  })
})

describe('a provider with limits', () => {
  const quota = [
    '--workload',
    'equal-chains',
    '--programs',
    '40',
    '--arrivals',
    'burst',
    '--quota',
    'requests=60/min,tokens=1M/min',
  ]

  it('takes in what its limits have room for, and refuses next to nothing that is paced', () => {
    const [run] = played(...quota, '--policy', 'plas')
    expect(run?.result).toMatchObject({ calls: 240, output_tokens: run?.output_tokens })
    // A bucket that starts full and 60 a minute.
    expect(run?.result.makespan_us).toBeGreaterThan(179e6)
    expect(run?.result.makespan_us).toBeLessThan(220e6)
    expect(run?.result.refusals).toBeLessThan(5)
  })

  it('with twice the limits is faster', () => {
    const [once, twice] = played(...quota, '--engines', '1,2', '--policy', 'plas').map(
      ({ result }) => result.makespan_us,
    )
    expect(twice).toBeLessThan(0.6 * (once ?? 0))
  })

  it('ends short programs first for an order that knows them', () => {
    const mixed = [
      '--workload',
      'questions-and-agents',
      '--programs',
      '60',
      '--arrivals',
      'burst',
      '--quota',
      'requests=10/min',
    ]
    const [fcfs, srpt] = played(...mixed, '--policy', 'fcfs,srpt').map(
      ({ result: { programs } }) => programs.reduce((sum, { response_us }) => sum + response_us, 0) / programs.length,
    )
    expect(srpt).toBeLessThan(fcfs ?? 0)
  })

  it('says of a call that no limit has room for that it never fits', () => {
    expect(() => played(...quota, '--quota', 'tokens=100/min')).toThrow(/never fits/)
  })

  it.each(['requests=-1/min', 'nothing', 'requests=60'])('refuses %s as a limit', (limit) => {
    expect(parseRunFlags(['--quota', limit])).toMatchObject({ ok: false })
  })
})
