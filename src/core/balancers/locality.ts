/** Autellix Algorithm 2, as it serves traffic (choose-engine.ts). */
import { chooseEngine } from '../choose-engine.ts'
import { SHORT_PROMPT_TOKENS } from '../pool-types.ts'
import type { Balancer } from './balancer.ts'

export const LOCALITY: Balancer = Object.freeze({
  name: 'locality',
  short_prompt_tokens: SHORT_PROMPT_TOKENS,
  choose: chooseEngine,
})
