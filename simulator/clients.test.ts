/** What clients say of their programs, and records that come late, in whole simulations. */
import { expect, test } from 'vitest'
import { TINY } from '../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { type CallResult, type SimulationConfig, simulate } from './simulation.ts'
import type { ProgramClient } from './workloads/index.ts'
import type { WorkloadProgram } from './workloads/program.ts'

const CALL = { parents: [], prompt_tokens: 16, shared_prefix_tokens: 0, tool: null, tool_seconds: null, thread: 0 }

function chain(id: string, outputs: readonly number[], client: ProgramClient = {}): WorkloadProgram {
  const calls = outputs.map((output_tokens, at) => ({ ...CALL, output_tokens, parents: at === 0 ? [] : [at - 1] }))
  return { id, workload: 'w', calls, client }
}

function config(programs: readonly WorkloadProgram[], change: Partial<SimulationConfig> = {}): SimulationConfig {
  return {
    programs,
    arrivals_us: programs.map((_, at) => at),
    profile: TINY,
    engine: {
      ...{ max_seqs: 1, prefix_cache: false, chunked_prefill: true, steps_per_decision: 1 },
      ...{ swap_tokens: null, decision_us: 0 },
    },
    ...{ policy: 'plas', tuning: { levels: {} }, reading: 'modelled', balancer: 'cost-aware' },
    ...{ regions: [{ name: 'r', engines: 1 }], rtt_us: new Map(), report_us: 50_000 },
    ...{ tenants: [{ name: 't', weight: 1, share: 1 }], seed: 1, labelled: true, jump: true },
    ...change,
  }
}

const responses = (given: SimulationConfig) => simulate(given).programs.map(({ response_us }) => response_us)

test('a late record holds no client up', () => {
  const programs = [chain('a', [4, 4, 4])]
  const ends = (record_us: number) => {
    const calls: CallResult[] = []
    simulate(config(programs, { record_us, onCall: (call) => calls.push(call) }))
    return calls.map(({ ended_us }) => ended_us)
  }
  expect(ends(1e9)).toEqual(ends(0))
})

test('what is learned of a class comes with the records', () => {
  const long = Array.from({ length: 40 }, (_, at) => chain(`long${at}`, [40], { label: 'long' }))
  const short = Array.from({ length: 40 }, (_, at) => chain(`short${at}`, [4], { label: 'short' }))
  const programs = long.flatMap((one, at) => [one, short[at] as WorkloadProgram])
  const arrivals_us = programs.map((_, at) => at * 8_000)
  const given = { policy: 'learned', told_us: 0, arrivals_us } as const
  const prompt = responses(config(programs, given))
  expect(responses(config(programs, { ...given, record_us: 1e12 }))).not.toEqual(prompt)
})

test('without ends a class is known by its open programs alone', () => {
  const labelled = (label: string, outputs: readonly number[], tells_end: boolean) =>
    Array.from({ length: 40 }, (_, at) => chain(`${label}${at}`, outputs, { label, tells_end }))
  const mixed = (tells_end: boolean) => {
    const long = labelled('long', [8, 60], tells_end)
    const programs = labelled('short', [8], tells_end).flatMap((one, at) => [long[at] as WorkloadProgram, one])
    const arrivals_us = programs.map((_, at) => at * 8_000)
    return responses(config(programs, { policy: 'learned', told_us: 0, arrivals_us }))
  }
  expect(mixed(false)).not.toEqual(mixed(true))
  expect(mixed(false).every((response_us) => response_us > 0)).toBe(true)
})

test('a program is of the tenant that its client names', () => {
  const tenants = ['a', 'b'].map((name) => ({ name, weight: 1, share: 1 }))
  const programs = Array.from({ length: 8 }, (_, at) => chain(`p${at}`, [2], { tenant: 'b' }))
  expect(simulate(config(programs, { tenants })).programs.map(({ tenant }) => tenant)).toEqual(Array(8).fill('b'))
  const lost = [chain('p', [1], { tenant: 'c' })]
  expect(() => simulate(config(lost, { tenants }))).toThrow('program p: there is no tenant c')
})
