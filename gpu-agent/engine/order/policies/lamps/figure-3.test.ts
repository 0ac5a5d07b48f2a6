/**
 * LAMPS' figure 3 on the engine's own scheduler: three requests that arrive together, a memory of six units, one at a time. A
 * unit is UNIT tokens: as many iterations generate them, and as many tokens of KV they are.
 *
 *     request   length   tool after   tool's time   context while it runs
 *     R1        6        5            2             preserved
 *     R2        2        1            7             discarded
 *     R3        3        2            1             swapped
 *
 * The pins are firm here, as in the figure: R2 waits for the room of R1, whose tool runs.
 */
import { expect, it } from 'vitest'
import { HANDLINGS, type Handling, type HandlingChoice, type HandlingRule } from '../../../memory/handling/waste.ts'
import { testConfig, tokens } from '../../../testing/calls.ts'
import { forecastOf } from '../../../testing/forecasts.ts'
import { type Program, runPrograms, UNIT_STEPS, UNIT_US } from '../../../testing/programs.ts'
import {
  type Charge,
  type EngineMemory,
  type Place,
  type Policy,
  type PolicyCall,
  yieldsToBetterRank,
} from '../../policy.ts'
import { Infercept } from '../infercept/infercept.ts'
import { LAMPS, Lamps } from './lamps.ts'

const UNIT = 16
const REQUESTS = {
  R1: { length: 6, tool_after: 5, tool: 2, handling: 'preserve' },
  R2: { length: 2, tool_after: 1, tool: 7, handling: 'discard' },
  R3: { length: 3, tool_after: 2, tool: 1, handling: 'swap' },
} as const satisfies Record<string, { length: number; tool_after: number; tool: number; handling: Handling }>
type Request = keyof typeof REQUESTS
const NAMES = Object.keys(REQUESTS) as Request[]

const MEMORY: EngineMemory = {
  costs: {
    forward: { base_us: 0, free_tokens: 0, per_token_us: UNIT_US, per_pair_us: 0 },
    swap: { base_us: 0, free_tokens: 0, per_token_us: 1, per_pair_us: 0 },
    kv_bytes_per_token: 1,
  },
  step_us: UNIT_US,
  other_tokens: 40,
}
const RULE: HandlingRule = { allowed: HANDLINGS, hidden_swaps: false, revises: false, pins: 'firm' }

/** Decides as Table 1 has it, and orders as the policies do that it is made of: one for each request. */
class Table1 implements Policy {
  readonly name = 'table 1'
  readonly ties = 'program'
  readonly retention = 'rank'
  readonly evicts = 'for_started'
  readonly handling = RULE
  readonly yieldsTo = yieldsToBetterRank
  readonly #policies: Readonly<Record<Request, Policy>>
  readonly #of = new Map<Place, Request>()

  constructor(policyOf: (request: Request) => Policy) {
    this.#policies = { R1: policyOf('R1'), R2: policyOf('R2'), R3: policyOf('R3') }
  }

  arrive(call: PolicyCall, now_us: number): Place {
    const request = call.call.program as Request
    const place = this.#policies[request].arrive(call, now_us)
    this.#of.set(place, request)
    return place
  }

  charge(place: Place, charge: Charge, now_us: number): boolean {
    return this.#policyOf(place).charge(place, charge, now_us)
  }

  refresh(place: Place, now_us: number): boolean {
    return this.#policyOf(place).refresh?.(place, now_us) ?? false
  }

  dueUs(place: Place): number {
    return this.#policyOf(place).dueUs(place)
  }

  due(place: Place, now_us: number): boolean {
    return this.#policyOf(place).due(place, now_us)
  }

  handlingOf(place: Place): HandlingChoice {
    return { handling: REQUESTS[this.#of.get(place) as Request].handling, waste: { preserve: 0, discard: 0, swap: 0 } }
  }

  #policyOf(place: Place): Policy {
    return this.#policies[this.#of.get(place) as Request]
  }
}

interface Left extends Place {
  readonly at_start: number
  written: number
}

/** Shortest first: by the tokens that are left of the request, recomputed ones included, and with its tool if `total`. */
function shortestFirst(request: Request, total: boolean): Policy<Left> {
  const { length, tool_after, tool, handling } = REQUESTS[request]
  return {
    ...{ name: 'shortest first', ties: 'program', retention: 'rank', yieldsTo: yieldsToBetterRank },
    arrive({ call: { lease } }) {
      const recomputed = handling === 'discard' ? tool_after : 0
      const units = lease.endsWith('/0') ? length + (total ? tool : 0) : length - tool_after + recomputed
      return { rank: units * UNIT, at_start: units * UNIT, written: 0 }
    },
    charge(place, { output_tokens, prefill_tokens }) {
      place.written += Math.max(output_tokens, prefill_tokens > 0 ? 1 : 0)
      const rank = place.at_start - place.written
      if (rank === place.rank) return false
      place.rank = rank
      return true
    },
    dueUs: () => Number.POSITIVE_INFINITY,
    due: () => false,
  }
}

function programOf(request: Request, index: number): Program {
  const { length, tool_after, tool } = REQUESTS[request]
  const written = tool_after * UNIT
  const [first, ...answer] = tokens(written + 1, index + 1) as [number, ...number[]]
  return {
    id: request,
    given: { sequence: [index, 0] },
    calls: [
      { prompt: [first], answer, output_tokens: written, forecast: forecastOf(written, tool * UNIT * UNIT_US) },
      {
        // With its last answer R1 has the whole memory, so the token that was sampled last is not sent back.
        prompt: [first, ...answer].slice(0, 6 * UNIT - (length - tool_after) * UNIT),
        output_tokens: (length - tool_after) * UNIT,
        gap_us: tool * UNIT * UNIT_US,
        forecast: forecastOf((length - tool_after) * UNIT, null),
      },
    ],
  }
}

function completions(policyOf: (request: Request) => Policy): number[] {
  const config = testConfig({
    ...{ policy: new Table1(policyOf), ordering: 'wall', seats: 1, slots: 4, slot_tokens_max: 6 * UNIT + 1 },
    ...{ block_tokens: UNIT, capacity_blocks: 6, max_step_tokens: 1, prefill_chunk_tokens: 1, memory: MEMORY },
    // An evicted call is computed again.
    swap: {
      costs: { save_us_per_token: 1, restore_us_per_token: 1, base_us: 1e9 },
      recompute_us_per_token: 1,
      image_tokens_max: 1_000,
    },
  })
  const profile = { ...UNIT_STEPS, swap_costs: { save_us_per_token: 0, restore_us_per_token: 0, base_us: 0 } }
  const run = runPrograms(config, NAMES.map(programOf), { profile })
  return NAMES.map((name) => (run.program_ended_us.get(name) ?? 0) / (UNIT * UNIT_US))
}

it('first come, first served (InferCept) completes at 8, 15 and 12', () => {
  expect(completions(() => new Infercept('infercept'))).toEqual([8, 15, 12])
})

it('shortest first at 12, 14 and 5', () => {
  expect(completions((request) => shortestFirst(request, false) as Policy)).toEqual([12, 14, 5])
})

it('shortest first by total length at 11, 18 and 4', () => {
  expect(completions((request) => shortestFirst(request, true) as Policy)).toEqual([11, 18, 4])
})

it('LAMPS at 12, 14 and 4', () => {
  const lampsOf = (request: Request) => {
    const handling = { ...RULE, allowed: [REQUESTS[request].handling] }
    return new Lamps({ ...LAMPS, starvation_iterations: 1_000, handling }, MEMORY) as Policy
  }
  expect(completions(lampsOf)).toEqual([12, 14, 4])
})
