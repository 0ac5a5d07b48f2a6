import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { HANDLING_FILE, handlingLines } from './handling-cases.ts'
import { HOLD_FILE, holdLines } from './hold-cases.ts'
import { learnedPriors, PRIORS_FILE } from './learned-priors.ts'
import { recordTrace } from './record-trace.ts'
import { SCENARIOS } from './scenarios.ts'
import { WASTE_FILE, wasteLines } from './waste-cases.ts'

const vllm = path.join(import.meta.dirname, '../../gpu-agent/vllm')
const golden = path.join(vllm, 'golden')
const folder = path.join(golden, 'traces')

describe('the committed golden traces', () => {
  it('are one for each scenario', () => {
    const committed = readdirSync(folder).sort()
    expect(committed).toEqual(SCENARIOS.map(({ name }) => `${name}.jsonl`).sort())
  })

  // A failure here means that the engine decides otherwise than the traces say, so that the Python core no longer agrees
  // with it: run `node lab/golden/write-golden.ts`, then `npm run test:vllm-core`.
  it.each(SCENARIOS.map((scenario) => [scenario.name, scenario] as const))(
    '%s is what the engine does',
    (name, scenario) => {
      expect(recordTrace(scenario)).toBe(readFileSync(path.join(folder, `${name}.jsonl`), 'utf8'))
    },
  )

  it('of the choice between swap and recompute are what the engine chooses', () => {
    expect(handlingLines()).toBe(readFileSync(path.join(golden, 'handling', HANDLING_FILE), 'utf8'))
  })

  it('of what happens to a context while a tool runs are what the engine decides', () => {
    expect(wasteLines()).toBe(readFileSync(path.join(golden, 'handling', WASTE_FILE), 'utf8'))
  })

  it('of what is held while tools run are what the engine holds', () => {
    expect(holdLines()).toBe(readFileSync(path.join(golden, 'handling', HOLD_FILE), 'utf8'))
  })

  it('go with the tables of the prior of learned that the engine has', () => {
    expect(learnedPriors()).toBe(readFileSync(path.join(vllm, PRIORS_FILE), 'utf8'))
  })

  it.each(SCENARIOS.filter(({ config }) => config.standby === 'resident_first').map((one) => [one.name, one] as const))(
    '%s gives seats to other calls than the next in order',
    (_, scenario) => {
      const seatedOf = (trace: string) => trace.split('\n').filter((line) => line.includes('"seated":['))
      const { config } = scenario
      const in_order = recordTrace({ ...scenario, config: { ...config, standby: 'in_order' } })
      expect(seatedOf(recordTrace(scenario))).not.toEqual(seatedOf(in_order))
    },
  )

  it('show what they are there for', () => {
    const traces = SCENARIOS.map(({ name }) => readFileSync(path.join(folder, `${name}.jsonl`), 'utf8'))
    const all = traces.join('')
    for (const kind of [
      '"arrive"',
      '"resident"',
      '"seated":[',
      '"seated":null',
      '"charges"',
      '"ended"',
      '"ranks"',
      '"usage"',
    ]) {
      expect(all).toContain(kind)
    }
    // KV was swapped out.
    expect(all).toMatch(/"resident":\["c\d+",\d+,0\]/)
  })
})
