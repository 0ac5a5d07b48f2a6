/**
 * Output lengths of a model as an empirical distribution (SamuLLM §4.1): lengths hardly depend on the prompt, so the total time of many requests
 * is estimated well with lengths drawn from what the model said before.
 *
 * A table has 101 quantiles, linear between them. The last percent reaches from the 99 % quantile to the longest length seen and is steep, so a
 * straight line would overstate its mean: `tail_exponent` bends it until the table's mean is that of the lengths it was made from.
 */

export interface LengthTable {
  /** Tokens that the model takes in all, prompt and output. */
  max_model_tokens: number
  mean_tokens: number
  /** 0 %, 1 %, …, 100 %; ascending. */
  quantiles: readonly number[]
  tail_exponent: number
}

export interface LengthLimits {
  input_tokens: number
  /** Infinity: the request sets no limit. */
  max_output_tokens: number
}

const PERCENTS = 100
const TAIL_EXPONENT_MAX = 1000

/** `random` is uniform in [0, 1). */
export function drawOutputTokens(table: LengthTable, limits: LengthLimits, random: () => number): number {
  return limited(lengthAt(table, random()), table.max_model_tokens, limits)
}

/** min(X, max_out, max_len − in), and at least the one token that every request samples. */
export function limited(tokens: number, max_model_tokens: number, limits: LengthLimits): number {
  const room_tokens = max_model_tokens - limits.input_tokens
  return Math.max(1, Math.min(tokens, limits.max_output_tokens, room_tokens))
}

/** The length that a share `at` of outputs does not exceed, a whole number of tokens. */
export function lengthAt({ quantiles, tail_exponent }: LengthTable, at: number): number {
  const position = Math.min(Math.max(at, 0), 1) * PERCENTS
  const below = Math.min(PERCENTS - 1, Math.floor(position))
  const low = quantiles[below] as number
  const high = quantiles[below + 1] as number
  const share = position - below
  return Math.round(low + (high - low) * (below === PERCENTS - 1 ? share ** tail_exponent : share))
}

/** The table of given quantiles whose mean is `mean_tokens`, as far as bending the last percent reaches. */
export function lengthTable(quantiles: readonly number[], mean_tokens: number, max_model_tokens: number): LengthTable {
  if (quantiles.length !== PERCENTS + 1) throw new RangeError('a length table has 101 quantiles, 0 % to 100 %')
  if (quantiles.some((one, at) => !(one >= 1) || one < (quantiles[at - 1] ?? 1)))
    throw new RangeError('quantiles are at least 1 and ascend')
  return { max_model_tokens, mean_tokens, quantiles, tail_exponent: tailExponent(quantiles, mean_tokens) }
}

/** The table of lengths that were learned. Undefined: they fall somewhere, so they are no quantiles. */
export function tableOfLengths(
  { quantiles, mean_tokens }: { quantiles: readonly number[]; mean_tokens: number },
  max_model_tokens: number,
): LengthTable | undefined {
  if (quantiles.some((one, at) => one < (quantiles[at - 1] ?? 1))) return undefined
  return lengthTable(quantiles, mean_tokens, max_model_tokens)
}

/** The table of outputs that were seen: those of a model that runs here. Throws RangeError without any. */
export function lengthTableOf(output_tokens: readonly number[], max_model_tokens: number): LengthTable {
  if (output_tokens.length === 0) throw new RangeError('a length table needs at least one output')
  const sorted = [...output_tokens].sort((a, b) => a - b)
  const quantiles = Array.from({ length: PERCENTS + 1 }, (_, percent) => {
    const position = (percent / PERCENTS) * (sorted.length - 1)
    const below = Math.floor(position)
    const low = sorted[below] as number
    return low + ((sorted[below + 1] ?? low) - low) * (position - below)
  })
  const sum = sorted.reduce((total, tokens) => total + tokens, 0)
  return lengthTable(quantiles, sum / sorted.length, max_model_tokens)
}

/** The mean of the last percent is low + (high − low) / (exponent + 1). */
function tailExponent(quantiles: readonly number[], mean_tokens: number): number {
  let others = 0
  for (let percent = 0; percent < PERCENTS - 1; percent += 1)
    others += ((quantiles[percent] as number) + (quantiles[percent + 1] as number)) / 2
  const low = quantiles[PERCENTS - 1] as number
  const high = quantiles[PERCENTS] as number
  const tail_mean = mean_tokens * PERCENTS - others
  if (high <= low || tail_mean >= high) return 1
  if (tail_mean <= low) return TAIL_EXPONENT_MAX
  return Math.min(TAIL_EXPONENT_MAX, (high - low) / (tail_mean - low) - 1)
}
