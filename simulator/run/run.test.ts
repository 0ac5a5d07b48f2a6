import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { profileOf } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { SWAP_KERNELS } from '../engines/swap-kernels.ts'
import { TraceError } from '../workloads/index.ts'
import { readHistory } from './history.ts'
import { enginesOf, pointsOf } from './play-plan.ts'
import { runAll } from './run-all.ts'
import { parseRunFlags } from './run-flags.ts'
import { runNotes } from './run-notes.ts'
import type { RunPlan } from './run-plan.ts'

function planOf(...argv: string[]): RunPlan {
  const flags = parseRunFlags(argv)
  if (!flags.ok) throw new Error(flags.reason)
  return flags.plan
}

const reasonOf = (...argv: string[]) => {
  const flags = parseRunFlags(argv)
  return flags.ok ? 'taken' : flags.reason
}

describe('the flags of run', () => {
  it('give a run for every combination', () => {
    const plan = planOf('--policy', 'fcfs,plas', '--rate', '1,2', '--seed', '1,2,3', '--balancer', 'locality,affinity')
    expect(pointsOf(plan)).toHaveLength(24)
    expect(pointsOf(plan)[1]).toMatchObject({ policy: 'plas', rate: 1, balancer: 'locality', seed: 1 })
    const sizes = pointsOf(planOf('--policy', 'fcfs,plas', '--engines', '1,3'))
    expect(sizes.map(({ policy, fleet }) => `${policy} ${enginesOf(fleet)}`)).toEqual([
      ...['fcfs 1', 'plas 1', 'fcfs 3', 'plas 3'],
    ])
    const regions = pointsOf(planOf('--regions', 'us:2,eu:3'))
    expect(regions.map(({ fleet }) => enginesOf(fleet))).toEqual([5])
  })

  it('move KV at the profile’s costs, or as a kernel was measured', () => {
    const costs = (...argv: string[]) => planOf(...argv).profile.swap_costs
    expect(costs()).toEqual(profileOf('a100-8b').swap_costs)
    expect(costs('--swap-kernel', 'gather')).toEqual(SWAP_KERNELS.gather.swap_costs)
  })

  it('give freed seats to the calls that are next in order, or to resident ones first', () => {
    const standby = (...argv: string[]) => planOf('--steps-per-decision', '10', ...argv).engine.standby
    expect([standby(), standby('--standby', 'resident-first')]).toEqual(['in_order', 'resident_first'])
    expect(reasonOf('--standby', 'resident')).toMatch('there is no resident; there are in-order, resident-first')
  })

  it('hold at their bounds, and are refused one past them, by name', () => {
    const bounds = [
      ['--max-seqs', '1', '1024', '0', '1025'],
      ['--programs', '1', '1000000', '0', '1000001'],
      ['--report-ms', '0.001', '3000', '0', '3000.1'],
      ['--shards', '1', '64', '0', '65'],
      ['--levels', '1', '64', '0', '65'],
      ['--engines', '1', '4096', '0', '4097'],
      ['--context-tokens', '1', '428256', '0', '428257'],
    ] as const
    for (const [flag, least, most, below, above] of bounds) {
      expect([least, most].map((value) => reasonOf(flag, value))).toEqual(['taken', 'taken'])
      for (const value of [below, above, '', 'x']) expect(reasonOf(flag, value)).toMatch(`${flag} must be`)
    }
  })

  it('refuse what contradicts itself', () => {
    expect(reasonOf('--regions', 'us:1', '--engines', '2')).toMatch('leave --engines out')
    expect(reasonOf('--regions', 'us:1,us:2')).toMatch('names a region twice')
    expect(reasonOf('--regions', 'us:1,eu:1', '--rtt', 'us-asia:80')).toMatch('there is no region asia')
    expect(reasonOf('--regions', 'us:1,eu:1', '--rtt', 'us-eu:80,eu-us:90')).toMatch('twice')
    expect(reasonOf('--workload', 'mixed', '--trace', 'x')).toMatch('exclude each other')
    expect(reasonOf('--policy', 'best')).toMatch('there is no best; there are fcfs')
    expect(reasonOf('--swap-kernel', 'gather', '--profile', 'a100-70b-tp4')).toMatch('of a100-8b alone')
    expect(reasonOf('--swap-kernel', 'fast')).toMatch('there is no fast; there are copy-per-block')
  })

  it('name files that are not there, and folders that are', () => {
    const folder = mkdtempSync(join(tmpdir(), 'flags-'))
    const file = join(folder, 'out.json')
    expect(reasonOf('--json', file, '--plot', join(folder, 'out.svg'))).toBe('taken')
    expect(reasonOf('--json', folder)).toMatch(`--json: ${folder} is a folder`)
    expect(reasonOf('--json', '')).toMatch('--json names no file')
    expect(reasonOf('--plot', join(file, 'out.svg'))).toMatch(`--plot: there is no folder ${file}`)
    expect(reasonOf('--trace', file)).toMatch(`--trace: there is no file ${file}`)
    expect(reasonOf('--trace', folder)).toMatch(`--trace: ${folder} is a folder`)
    expect(reasonOf('--history', folder)).toMatch('is a folder')
  })

  it('say where help is, in one line', () => {
    expect(reasonOf('--rate', '-1')).toMatch(
      /^Option '--rate' argument is ambiguous\. `npm run simulate -- run --help`/,
    )
    expect(reasonOf('extra')).toMatch(/^Unexpected argument 'extra'.*`npm run simulate -- run --help`/)
  })
})

function traceOf(...calls: object[]): string {
  const file = join(mkdtempSync(join(tmpdir(), 'runs-')), 'trace.jsonl')
  const call = { thread: 0, parents: [], shared_prefix_tokens: 0, output_tokens: 5, tool: null, tool_seconds: null }
  const lines = calls.map((own, at) =>
    JSON.stringify({ id: `p${at}`, workload: `w${at}`, calls: [{ ...call, ...own }] }),
  )
  writeFileSync(file, lines.join('\n'))
  return file
}

describe('the flags of policies that handle contexts', () => {
  it('change what is given, and leave the rest to the policy', () => {
    expect(planOf('--policy', 'lamps')).toMatchObject({
      forecast: { kind: 'learned' },
      tuning: { lamps: {}, handling: {} },
    })
    const plan = planOf(
      ...[
        '--policy',
        'infercept,lamps',
        '--forecast',
        'oracle',
        '--forecast-error',
        '0.3',
        '--handling',
        'preserve,swap',
      ],
      ...['--hidden-swaps', 'off', '--revise', 'off', '--starvation', 'at-promotion', '--starvation-iterations', '30'],
      ...['--refresh-tokens', '1', '--rank', 'first-come'],
    )
    expect(plan.forecast).toEqual({ kind: 'oracle', error: 0.3 })
    expect(plan.tuning.handling).toEqual({ allowed: ['preserve', 'swap'], hidden_swaps: false, revises: false })
    expect(plan.tuning.lamps).toEqual({
      ...{ starvation_iterations: 30, refresh_tokens: 1, starvation: 'at_promotion', order: 'first_come' },
    })
  })

  it('are refused by name where they do not fit', () => {
    expect(reasonOf('--forecast', 'luck')).toMatch('--forecast: there is no luck; there are learned, oracle, none')
    expect(reasonOf('--forecast-error', '0.3')).toMatch('--forecast-error needs --forecast oracle')
    expect(reasonOf('--handling', 'keep')).toMatch('--handling: there is no keep; there are preserve, discard, swap')
    expect(reasonOf('--starvation-iterations', '0')).toMatch('--starvation-iterations must be an integer from 1')
  })
})

describe('the history of run', () => {
  it('is read from a file, and the output says what it changes', () => {
    const plan = planOf('--policy', 'fcfs', '--history', traceOf({ prompt_tokens: 1 }, { prompt_tokens: 2 }))
    const history = readHistory(plan)
    expect(history.map(({ id }) => id)).toEqual(['p0', 'p1'])
    expect(runNotes(plan, history)).toEqual([
      expect.stringMatching(/2 programs of 2 classes.*fcfs: no policy of this run/),
    ])
    expect(runNotes({ ...plan, policies: ['fcfs', 'learned'] }, history)).toEqual([
      expect.stringMatching(/2 programs of 2 classes.*\(--history\)\. learned learns from it/),
    ])
  })

  it('of a broken file is refused by file, line and field', () => {
    const file = traceOf({ prompt_tokens: 1 }, { prompt_tokens: 0 })
    const plan = planOf('--history', file)
    expect(() => readHistory(plan)).toThrow(TraceError)
    expect(() => readHistory(plan)).toThrow(`${file}:2: calls[0].prompt_tokens: `)
  })

  it('that is drawn has none of the programs that are played', () => {
    const plan = planOf('--workload', 'sharegpt', '--programs', '4', '--seed', '1,5', '--history', '3')
    const history = readHistory(plan)
    expect(history).toHaveLength(3)
    expect(history.map(({ id }) => id)).toEqual(['sharegpt-6-0', 'sharegpt-6-1', 'sharegpt-6-2'])
    expect(readHistory(planOf())).toEqual([])
  })
})

describe('runs on threads', { timeout: 60_000 }, () => {
  it('give the same figures as on one thread, in the same order', async () => {
    const plan = planOf('--workload', 'sharegpt', '--programs', '12', '--policy', 'fcfs,plas,srpt', '--rate', '2,20')
    const [one, two] = [await runAll(plan, { threads: 1 }), await runAll(plan, { threads: 2 })]
    const bytes = (runs: typeof one) => JSON.stringify(runs?.map((run) => ({ ...run, sim_wall_s: 0 })))
    expect(bytes(two)).toBe(bytes(one))
    expect(two?.map(({ policy, rate }) => `${policy} ${rate}`)).toEqual(
      pointsOf(plan).map(({ policy, rate }) => `${policy} ${rate}`),
    )
  })

  it('serve a prompt of 62,000 tokens with a context of that size, and refuse it by file and line without', async () => {
    const trace = traceOf({ prompt_tokens: 10 }, { prompt_tokens: 62_000 })
    const refused = planOf('--trace', trace, '--programs', '2')
    await expect(runAll(refused, { threads: 1 })).rejects.toThrow(
      `${trace}:2: calls[0].prompt_tokens: 62000 prompt tokens`,
    )
    expect(runNotes(refused, [])).toEqual([])
    const longer = planOf('--trace', trace, '--programs', '2', '--context-tokens', '65536')
    const [run] = await runAll(longer, { threads: 1 })
    expect(run?.calls).toBe(2)
    expect(runNotes(longer, [])).toEqual([
      expect.stringMatching(/65,536 tokens are accepted instead of the 32,768 of a100-8b.*extrapolated/),
    ])
  })

  it('say which program does not fit its engine', async () => {
    const plan = planOf('--workload', 'sharegpt', '--programs', '3', '--profile', 'tiny', '--max-seqs', '2')
    const small = { ...plan, profile: { ...plan.profile, slot_tokens_max: 16 } }
    await expect(runAll(small, { threads: 1 })).rejects.toThrow(/sharegpt-1-\d.* exceed the context of 16 tokens/)
  })
})
