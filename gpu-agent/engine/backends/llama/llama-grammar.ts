/**
 * Grammars of calls, in llama.cpp's GBNF. A grammar is read before its call is accepted (llama-text-model.ts), so one that
 * does not parse is the client's error and never the engine's.
 */
import { LlamaGrammar, LlamaGrammarEvaluationState, type LlamaModel } from 'node-llama-cpp'
import { OutputIncomplete } from '../../output-incomplete.ts'

export function isReadable(model: LlamaModel, grammar: string): boolean {
  try {
    new LlamaGrammar(model.llama, { grammar })
    return true
  } catch {
    // The library says no more than that; llama.cpp writes where to stderr.
    return false
  }
}

/** One call's place in its grammar, after `generated`. Advances with each token that is sampled for it. */
export function grammarState(
  model: LlamaModel,
  grammar: unknown,
  generated: readonly number[],
): LlamaGrammarEvaluationState {
  if (typeof grammar !== 'string') throw new Error('a grammar for llama.cpp is text')
  const state = new LlamaGrammarEvaluationState({ model, grammar: new LlamaGrammar(model.llama, { grammar }) })
  for (const token of generated) accept(model, state, token)
  return state
}

/** What the library's own sampler does with each token that it draws. It has no public method for it. */
function accept({ llama }: LlamaModel, state: LlamaGrammarEvaluationState, token: number): void {
  const { AddonSampler } = Reflect.get(llama, '_bindings') as { AddonSampler: GrammarBindings }
  const inner: unknown = Reflect.get(state, '_state')
  // A token that the grammar does not allow ends the process in llama.cpp.
  if (!AddonSampler.canBeNextTokenForGrammarEvaluationState(inner, token)) {
    throw new OutputIncomplete(new Error(`the grammar does not allow token ${token}, which the call has generated`))
  }
  AddonSampler.acceptGrammarEvaluationStateToken(inner, token)
}

interface GrammarBindings {
  canBeNextTokenForGrammarEvaluationState(state: unknown, token: number): boolean
  acceptGrammarEvaluationStateToken(state: unknown, token: number): void
}
