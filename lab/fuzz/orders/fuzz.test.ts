import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MEMORY_POLICY_NAMES, POLICY_NAMES } from '../../../gpu-agent/engine/order/policies/index.ts'
import { describeMismatch, fuzz, type OtherOrder } from './fuzz.ts'
import { play } from './play.ts'
import { scenarios } from './scenario.ts'

const BUDGET = { seed: 5, runs_max: 200, seconds_max: 60 }

/** Takes every trace but those that change to mlfq. */
const refusesMlfq: OtherOrder = {
  replay: async (trace) => {
    const line = trace.findIndex((text) => text.includes('"reconfigured":{"name":"mlfq"'))
    return line === -1 ? { ok: true } : { ok: false, mismatch: `line ${line + 1}` }
  },
}

describe('fuzzing', () => {
  it('plays every kind of line under every policy, and every call ends', () => {
    const seen = new Set<string>()
    const lines: Record<string, unknown>[] = fc
      .sample(scenarios, { seed: 1, numRuns: 100 })
      .flatMap(play)
      .map((line) => JSON.parse(line))
    for (const line of lines) for (const name of Object.keys(line)) seen.add(name)
    const policies = new Set(lines.flatMap(({ policy }) => (policy as { name: string } | undefined)?.name ?? []))
    const all = [...POLICY_NAMES, ...MEMORY_POLICY_NAMES]
    expect([...policies].sort()).toEqual(all.sort())
    for (const kind of [
      'arrive',
      'resident',
      'seated',
      'charges',
      'ended',
      'settled',
      'reconfigured',
      'classes',
      'usage',
    ]) {
      expect(seen).toContain(kind)
    }
    const standby = lines.filter((line) => line.standby === 'resident_first' && Number(line.steps_per_decision) > 1)
    expect(standby.length).toBeGreaterThan(0)
    // Some KV was swapped out.
    expect(lines.some(({ resident }) => (resident as unknown[] | undefined)?.length === 3)).toBe(true)
    const count = (kind: string) => lines.filter((line) => kind in line).length
    expect(count('ended')).toBe(count('arrive'))
  })

  it('ends after its runs when both agree', async () => {
    const report = await fuzz(BUDGET, { replay: async () => ({ ok: true }) }, () => {})
    expect(report).toMatchObject({ seed: 5, runs: 200, mismatch: null })
  })

  it('shrinks a mismatch, and its seed and path play it again', async () => {
    const { mismatch } = await fuzz(BUDGET, refusesMlfq, () => {})
    expect(mismatch?.reason).toMatch(/^line \d$/)
    expect(mismatch?.scenario.events.length).toBeLessThanOrEqual(3)
    const again = await fuzz({ ...BUDGET, path: mismatch?.path }, refusesMlfq, () => {})
    expect(again.mismatch?.trace).toEqual(mismatch?.trace)
    expect(describeMismatch(mismatch as NonNullable<typeof mismatch>, 'npm run fuzz')).toContain('Play it again: npm')
  })

  it('says so when the other order does not fail again', async () => {
    let replays = 0
    const fickle: OtherOrder = {
      replay: async () => (++replays === 1 ? { ok: false, mismatch: 'once' } : { ok: true }),
    }
    const { mismatch } = await fuzz(BUDGET, fickle, () => {})
    expect(mismatch?.reason).toContain('not seen again')
  })
})
