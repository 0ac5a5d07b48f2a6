import { z } from 'zod'

/** What a learned order makes small: the mean latency per output token of programs, or their mean response time. */
export const OBJECTIVES = ['token_latency', 'response'] as const
export const Objective = z.enum(OBJECTIVES)
export type Objective = z.infer<typeof Objective>
