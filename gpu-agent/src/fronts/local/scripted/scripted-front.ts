/**
 * The front of an engine that plays answers from a file: scheduler, streams, tool calls, usage and records as with any other
 * engine, and no model. It describes itself as emulated. For tests of agents against the whole system.
 */
import type { ClassTables } from '../../../../engine/order/policy.ts'
import type { EngineCall } from '../../../../engine/types.ts'
import { SCRIPTED } from '../../../openai/capabilities.ts'
import { assistantText } from '../../../openai/tool-text.ts'
import type { EngineFront, EngineFrontEvents } from '../../engine-front.ts'
import { type FrontOptions, SCRIPTED_CONTEXT_TOKENS } from '../../front-options.ts'
import { sizedProfile, startLatencyFront } from '../emulated-front.ts'
import { readScript, type Script, scriptedAnswer } from './script.ts'
import { messagesOf, ScriptedTextModel, tokensOf } from './scripted-text-model.ts'

export const NO_ANSWER = 'The script has no answer for this call.'

export function startScriptedFront(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void,
  classes: ClassTables | null = null,
): Promise<EngineFront> {
  if (options.script_path === undefined) throw new Error('the scripted engine needs a script')
  const script = readScript(options.script_path)
  const profile = sizedProfile({ context_tokens: SCRIPTED_CONTEXT_TOKENS, ...options }, 'fast')
  return startLatencyFront(
    {
      options,
      profile,
      text: new ScriptedTextModel(profile.slot_tokens_max),
      capabilities: SCRIPTED,
      system_fingerprint: 'switchyard-scripted',
      backend: { answer: (call) => answerOf(script, call) },
      classes,
      report,
    },
    events,
  )
}

function answerOf(script: Script, { prompt }: EngineCall): readonly number[] {
  const answer = scriptedAnswer(script, messagesOf(prompt))
  if (answer === null) return tokensOf(NO_ANSWER)
  const calls = answer.calls.map((call) => ({ name: call.name, arguments: JSON.stringify(call.arguments) }))
  return tokensOf(assistantText(answer.text, calls))
}
