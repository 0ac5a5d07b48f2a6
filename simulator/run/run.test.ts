import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runAll } from './run-all.ts'
import { parseRunFlags } from './run-flags.ts'
import { pointsOf, type RunPlan } from './run-plan.ts'

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
    expect(pointsOf(plan)[1]).toEqual({ policy: 'plas', rate: 1, balancer: 'locality', seed: 1 })
  })

  it('hold at their bounds, and are refused one past them, by name', () => {
    const bounds = [
      ['--max-seqs', '1', '1024', '0', '1025'],
      ['--programs', '1', '1000000', '0', '1000001'],
      ['--report-ms', '0.001', '3000', '0', '3000.1'],
      ['--levels', '1', '64', '0', '65'],
      ['--engines', '1', '4096', '0', '4097'],
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

  it('say which program does not fit its engine', async () => {
    const plan = planOf('--workload', 'sharegpt', '--programs', '3', '--profile', 'tiny', '--max-seqs', '2')
    const small = { ...plan, profile: { ...plan.profile, slot_tokens_max: 16 } }
    await expect(runAll(small, { threads: 1 })).rejects.toThrow(/sharegpt-1-\d.* exceed the context of 16 tokens/)
  })
})
