/**
 * Plays a trace on a running system as its clients would: each program at its time, each call over HTTP when its parents have
 * answered and their tools have run.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { WorkloadProgram } from '../../simulator/workloads/index.ts'
import { completeCall, type Endpoint, endProgram } from '../bench/complete-call.ts'
import { promptTexts } from './prompt-texts.ts'

export interface PlayedTrace {
  programs: { id: string; response_s: number; output_tokens: number }[]
  calls: number
  makespan_s: number
  prompt_tokens: number
  cached_tokens: number
  /** Refusals that were tried again. */
  retries: number
}

type Totals = Omit<PlayedTrace, 'programs' | 'makespan_s'>

/** `onProgram`: so many have ended. */
export async function playTrace(
  endpoint: Endpoint,
  trace: readonly WorkloadProgram[],
  onProgram: (ended: number) => void,
): Promise<PlayedTrace> {
  const texts = trace.map(promptTexts)
  const totals: Totals = { calls: 0, prompt_tokens: 0, cached_tokens: 0, retries: 0 }
  const started_ms = performance.now()
  let ended = 0
  const programs = await Promise.all(
    trace.map(async (program, index) => {
      await sleep(Math.max(0, (program.arrival_seconds ?? 0) * 1000 - (performance.now() - started_ms)))
      const arrived_ms = performance.now()
      await playProgram(endpoint, program, texts[index] as string[], totals)
      const response_s = (performance.now() - arrived_ms) / 1000
      await endProgram(endpoint, program.id)
      ended += 1
      onProgram(ended)
      const output_tokens = program.calls.reduce((sum, call) => sum + call.output_tokens, 0)
      return { id: program.id, response_s, output_tokens }
    }),
  )
  return { programs, makespan_s: (performance.now() - started_ms) / 1000, ...totals }
}

async function playProgram(
  endpoint: Endpoint,
  { id, calls }: WorkloadProgram,
  texts: readonly string[],
  totals: Totals,
): Promise<void> {
  const answered: Promise<string>[] = []
  for (const [index, call] of calls.entries()) {
    answered.push(
      Promise.all(call.parents.map((parent) => withTool(answered[parent] as Promise<string>, calls[parent]))).then(
        async (parents) => {
          const asked = { prompt: texts[index] as string, output_tokens: call.output_tokens }
          const thread = `${call.thread}`
          const { call_id, usage, retries } = await completeCall(endpoint, { program: id, thread, parents, ...asked })
          if (usage.prompt_tokens !== call.prompt_tokens)
            throw new Error(`${id}, call ${index}: ${usage.prompt_tokens} prompt tokens, not ${call.prompt_tokens}`)
          totals.calls += 1
          totals.prompt_tokens += usage.prompt_tokens
          totals.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
          totals.retries += retries
          return call_id
        },
      ),
    )
  }
  await Promise.all(answered)
}

async function withTool(answer: Promise<string>, call: WorkloadProgram['calls'][number] | undefined): Promise<string> {
  const call_id = await answer
  await sleep((call?.tool_seconds ?? 0) * 1000)
  return call_id
}
