/**
 * Cases of what happens to a context while a tool runs, with the engine's verdicts, as lines of JSON that the Python side replays:
 *   {"costs", "batch", "tools":[[probability, duration_us]…], "confidence", "allowed", "tool_us", "waste", "handling", "revise_after_us",
 *    "preserved_us", "revised"}   tool_us null: no tool is expected, and nothing is decided
 */
import {
  type Batch,
  chooseHandling,
  HANDLINGS,
  type MemoryCosts,
  reviseAfterUs,
  reviseHandling,
} from '../../gpu-agent/engine/memory/handling/waste.ts'
import { type CallForecast, expectedTool, type ToolForecast } from '../../src/core/call/forecast.ts'
import { generator } from './scenarios.ts'

export const WASTE_FILE = 'waste.jsonl'
const CASES = 400
/** From calculators to people, in microseconds. */
const DURATIONS_US = [90, 85_000, 700_000, 1_700_000, 17_000_000, 28_600_000, 200_000_000] as const

export function wasteLines(): string {
  const below = generator(501)
  const lines = Array.from({ length: CASES }, () => line(below))
  return `${lines.join('\n')}\n`
}

function line(below: (bound: number) => number): string {
  const costs = costsOf(below)
  const batch = { context_tokens: below(3) * below(2_000), other_tokens: below(3) * below(20_000) }
  const forecast = forecastOf(below)
  const allowed = HANDLINGS.filter(() => below(5) > 0)
  const tool_us = expectedTool(forecast)?.duration_us ?? null
  const tools = [forecast.tool, ...(forecast.alternatives ?? [])].flatMap((tool) =>
    tool === null ? [] : [[tool.probability, tool.duration_us]],
  )
  const given = { costs, batch, tools, confidence: forecast.confidence, allowed, tool_us }
  return JSON.stringify(tool_us === null ? given : { ...given, ...decided(costs, batch, tool_us, allowed, below) })
}

function decided(
  costs: MemoryCosts,
  batch: Batch,
  tool_us: number,
  allowed: (typeof HANDLINGS)[number][],
  below: (bound: number) => number,
) {
  const revise_after_us = reviseAfterUs(tool_us)
  const preserved_us = below(2) === 0 ? revise_after_us : below(400_000_000)
  const { handling: revised } = reviseHandling(costs, batch, preserved_us, allowed)
  return { ...chooseHandling(costs, batch, tool_us, allowed), revise_after_us, preserved_us, revised }
}

function costsOf(below: (bound: number) => number): MemoryCosts {
  const forward = {
    ...{ base_us: below(3) * 7_000, free_tokens: below(2) * 32, per_token_us: 20 + below(400) / 4 },
    per_pair_us: below(16) / 1024,
  }
  const swap = { base_us: below(2) * 30, free_tokens: 0, per_token_us: below(120) / 4, per_pair_us: 0 }
  return { forward, swap: below(5) === 0 ? null : swap, kv_bytes_per_token: 458_752 }
}

function forecastOf(below: (bound: number) => number): CallForecast {
  const tool = (): ToolForecast => {
    const duration_us = DURATIONS_US[below(DURATIONS_US.length)] as number
    return {
      name: 'tool',
      probability: below(9) / 16,
      duration_us,
      duration_p90_us: 2 * duration_us,
      answer_tokens: below(50),
    }
  }
  const alternatives = Array.from({ length: below(4) }, tool)
  const likeliest = below(10) === 0 ? null : tool()
  return {
    ...{ output_tokens: below(500), ends: 0, tool: likeliest },
    ...(likeliest === null || alternatives.length === 0 ? {} : { alternatives }),
    confidence: below(11) / 10,
  }
}
