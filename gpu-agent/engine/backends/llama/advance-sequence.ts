/**
 * One work item on its sequence: its tokens are queued for the step's batch, and one more is sampled if the item says so.
 *
 * Sampling keeps no state but a grammar's: biases and penalties, top_k, top_p, min_p (llama.cpp applies them before
 * temperature), temperature, and a seed from seed and position. A grammar's state advances with each sampled token and nothing else, so it
 * belongs to the call and outlives preemption, swap and recomputation: tokens computed again are not sampled again.
 *
 * `controlledEvaluate` knows no grammar; a constrained token comes from an `evaluate` generator that is pulled once, which
 * gives the same step: one batch, one sampler, one token.
 */
import type {
  ControlledEvaluateIndexOutput,
  ControlledEvaluateInputItem,
  LlamaContextSequence,
  LlamaGrammarEvaluationState,
  Token,
} from 'node-llama-cpp'
import type { Sampling, StepWork, TokenLogprobs } from '../../types.ts'
import { slotPriority } from './batch-gate.ts'
import { tokenSeed } from './sampling-seed.ts'
import { forced, type TokenAdjustments } from './token-adjustments.ts'

export interface AdmittedCall {
  readonly prompt_tokens: number
  /** Prompt, then what was sampled. */
  readonly tokens: number[]
  readonly sampling: Sampling
  readonly adjustments: TokenAdjustments
  /** Its prompt is computed, and nothing sampled. */
  readonly embeds: boolean
  /** By position; where the call asked. */
  readonly prompt_logprobs: Map<number, TokenLogprobs>
  /** Null: free text. */
  readonly grammar: LlamaGrammarEvaluationState | null
  /** Why it cannot be computed; null: it can. */
  readonly refused: unknown
}

/** What the model gave a token of the prompt. */
export interface PromptReading {
  position: number
  probabilities: ReadonlyMap<Token, number>
}

export interface Advanced {
  /** Null: the item samples none, or the sampler had none to give. */
  token: Token | null
  /** Where the call asked for log probabilities: what token-probabilities.ts lists. */
  probabilities: ReadonlyMap<Token, number> | undefined
  prompt: readonly PromptReading[]
}

export async function advanceSequence(
  sequence: LlamaContextSequence,
  call: AdmittedCall,
  { slot, from, to, samples }: StepWork,
): Promise<Advanced> {
  const { tokens, sampling, adjustments, grammar, embeds } = call
  const evaluationPriority = slotPriority(slot)
  const input = tokens.slice(from, to) as Token[]
  const items: ControlledEvaluateInputItem[] = input.map((token, index) => read(sequence, call, token, from + index))
  if (!samples || embeds) {
    const results = await sequence.controlledEvaluate(items, { evaluationPriority })
    return { ...NOTHING, prompt: readings(results, from) }
  }
  const { temperature, top_p: topP, top_k: topK = 0, min_p: minP = 0 } = sampling
  const confidence = sampling.logprobs !== undefined
  const seed = tokenSeed(sampling.seed, to)
  const options = { temperature, topK, topP, minP, seed, ...adjustments.of(tokens) }
  if (grammar !== null) {
    return constrained(sequence, input, confidence, { ...options, evaluationPriority, grammarEvaluationState: grammar })
  }
  const last = tokens[to - 1] as Token
  items[items.length - 1] = [last, { generateNext: { token: true, confidence, options } }]
  const results = await sequence.controlledEvaluate(items, { evaluationPriority })
  const { next } = results.at(-1) ?? {}
  const prompt = readings(results.slice(0, -1), from)
  return { token: next?.token ?? null, probabilities: next?.probabilities, prompt }
}

const NOTHING: Advanced = { token: null, probabilities: undefined, prompt: [] }

/**
 * A token of a prompt whose successor's probability is asked for: the library tells of the token that it draws, so the
 * successor is what it has to draw.
 */
function read(
  { model }: LlamaContextSequence,
  { tokens, prompt_tokens, sampling }: AdmittedCall,
  token: Token,
  position: number,
): ControlledEvaluateInputItem {
  const successor = tokens[position + 1]
  if (sampling.prompt_logprobs === undefined || successor === undefined || position + 1 >= prompt_tokens) return token
  const options = { temperature: 0, tokenBias: forced(model, successor) }
  return [token, { generateNext: { token: true, confidence: true, options } }]
}

function readings(results: readonly (ControlledEvaluateIndexOutput | undefined)[], from: number): PromptReading[] {
  const found: PromptReading[] = []
  for (const [index, result] of results.entries()) {
    const probabilities = result?.next.probabilities
    if (probabilities !== undefined) found.push({ position: from + index + 1, probabilities })
  }
  return found
}

async function constrained(
  sequence: LlamaContextSequence,
  input: Token[],
  confidence: boolean,
  options: Parameters<LlamaContextSequence['evaluate']>[1],
): Promise<Advanced> {
  const held = sequence.nextTokenIndex
  // Its types promise a probability where one was asked for; the list of our own comes in its place (serial-sampling.ts).
  const generator = sequence.evaluateWithMetadata(input, { confidence }, { ...options, yieldEogToken: true })
  try {
    const { value, done } = await generator.next()
    if (done) return NOTHING
    const { token, probabilities } = value as { token: Token; probabilities?: Map<Token, number> }
    return { token, probabilities, prompt: [] }
  } catch (error) {
    // The tokens are computed and only sampling failed, so only this call has no token.
    if (sequence.nextTokenIndex === held + input.length) return NOTHING
    throw error
  } finally {
    await generator.return()
  }
}
