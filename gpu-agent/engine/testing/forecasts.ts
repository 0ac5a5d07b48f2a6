/** Forecasts for tests. */
import type { CallForecast } from '../../../src/core/call/forecast.ts'

/** Certain: so many tokens, then a tool that takes so long. Null: the program ends. */
export function forecastOf(output_tokens: number, tool_us: number | null): CallForecast {
  if (tool_us === null) return { output_tokens, ends: 1, tool: null, confidence: 1 }
  const times = { duration_us: tool_us, duration_p90_us: tool_us, answer_tokens: 0 }
  return { output_tokens, ends: 0, tool: { name: 'tool', probability: 1, ...times }, confidence: 1 }
}
