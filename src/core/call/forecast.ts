/**
 * What is expected of one call before it runs (LAMPS §4.2): how much it writes, whether a tool follows, and what that tool
 * takes. The control plane fills it from what it has learned of the call's class, and the engine decides by it what happens
 * to the program's KV during the tool, and in which order calls run. It is advice: a wrong forecast costs time, never
 * correctness.
 */

/** What is expected of one tool that may follow a call. */
export interface ToolForecast {
  /** Null: known tools taken together, or no tool is known by name. */
  name: string | null
  /** That this tool follows the call, of all calls: at most 1 less the forecast's `ends`. */
  probability: number
  /** Mean time between the end of the call and the return of its program, microseconds. */
  duration_us: number
  /** The time that 90 % of the tool's runs stay below, microseconds. */
  duration_p90_us: number
  /** Mean length of what the tool returns, in tokens of the model. */
  answer_tokens: number
}

export interface CallForecast {
  /** Mean length of the whole answer, in tokens. What the call has written already counts. */
  output_tokens: number
  /** Probability from 0 to 1 that no tool follows: the thread ends with this call. */
  ends: number
  /** The likeliest tool. Null: none is expected. */
  tool: ToolForecast | null
  /** Other tools that may follow instead, likeliest first, at most FORECAST_ALTERNATIVES_MAX. Absent: none is told. */
  alternatives?: readonly ToolForecast[]
  /** From 0 (a guess from other classes) to 1 (certain). Below a named confidence, the mixture of tools decides. */
  confidence: number
}

/** A forecast of at least this confidence is believed to name the tool. Below it, all tools that may follow decide together. */
export const CONFIDENCE_MIN = 0.7
/** Tools named beside the likeliest one: the forecast travels with the call, so it stays small. */
export const FORECAST_ALTERNATIVES_MAX = 3

type Followers = Pick<CallForecast, 'tool' | 'alternatives'>

/** The probability that a tool follows the call. */
export function followsProbability({ tool, alternatives = [] }: Followers): number {
  if (tool === null) return 0
  return [tool, ...alternatives].reduce((sum, { probability }) => sum + probability, 0)
}

/**
 * What the tool after the call is expected to take: that of the likeliest tool, or, below CONFIDENCE_MIN, the mean over all
 * that may follow. Every cost of handling a cache is linear in the tool's time (LAMPS eq. 1–3), so that mean decides as well as
 * the tools one by one. Null: no tool is expected, or it is believed that none follows. A context that is kept for a program
 * which ends takes room from those that come back.
 */
export function expectedTool({
  tool,
  alternatives = [],
  confidence,
}: Pick<CallForecast, 'tool' | 'alternatives' | 'confidence'>): Pick<
  ToolForecast,
  'duration_us' | 'answer_tokens'
> | null {
  if (tool === null) return null
  const tools = [tool, ...alternatives]
  const weight = followsProbability({ tool, alternatives })
  if (confidence >= CONFIDENCE_MIN) return 1 - weight > tool.probability ? null : tool
  if (weight === 0) return tool
  const mean = (of: 'duration_us' | 'answer_tokens') =>
    tools.reduce((sum, one) => sum + one.probability * one[of], 0) / weight
  return { duration_us: mean('duration_us'), answer_tokens: mean('answer_tokens') }
}
