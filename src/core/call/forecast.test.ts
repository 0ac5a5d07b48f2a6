import { describe, expect, it } from 'vitest'
import { CONFIDENCE_MIN, expectedTool, type ToolForecast } from './forecast.ts'

function tool(given: Partial<ToolForecast>): ToolForecast {
  return { name: 'search', probability: 1, duration_us: 1e6, duration_p90_us: 2e6, answer_tokens: 10, ...given }
}

describe('the tool that is expected', () => {
  const likely = tool({ probability: 0.75 })
  const alternatives = [tool({ name: 'image', probability: 0.25, duration_us: 20e6, answer_tokens: 50 })]

  it('is the likeliest one if the forecast is confident', () => {
    expect(expectedTool({ tool: likely, alternatives, confidence: CONFIDENCE_MIN })).toBe(likely)
  })

  it('is the mean of all if it is not', () => {
    const confidence = CONFIDENCE_MIN - 0.01
    const mean = { duration_us: 0.75e6 + 5e6, answer_tokens: 20 }
    expect(expectedTool({ tool: likely, alternatives, confidence })).toEqual(mean)
    expect(expectedTool({ tool: likely, confidence })).toEqual({ duration_us: 1e6, answer_tokens: 10 })
    const impossible = tool({ probability: 0 })
    expect(expectedTool({ tool: impossible, confidence })).toBe(impossible)
  })

  it('is none if the call is expected to be the last, or is believed to be', () => {
    expect(expectedTool({ tool: null, confidence: 1 })).toBeNull()
    const rare = tool({ probability: 0.1 })
    const other = [tool({ name: 'image', probability: 0.05 })]
    expect(expectedTool({ tool: rare, alternatives: other, confidence: CONFIDENCE_MIN })).toBeNull()
    expect(expectedTool({ tool: rare, alternatives: other, confidence: CONFIDENCE_MIN - 0.01 })).not.toBeNull()
  })
})
