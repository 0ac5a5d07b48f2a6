import type { tokensOf } from '../workload.ts'

/** Measured once on SmolLM2-135M with 8 seats on two cores: a token in a full batch, and a prompt token. */
export const NOMINAL_OUTPUT_US = 4800
export const NOMINAL_PROMPT_US = 700

/** What tokens cost. For the load of a run only the ratio of the two matters. */
export function nominalWorkUs({ output_tokens, prompt_tokens }: ReturnType<typeof tokensOf>): number {
  return output_tokens * NOMINAL_OUTPUT_US + prompt_tokens * NOMINAL_PROMPT_US
}
