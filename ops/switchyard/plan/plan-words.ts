/** A capacity plan in words and bars, for a terminal. */
import type { Candidate } from '../../../simulator/fleet/fleet-search.ts'
import { type FleetQuestion, inUnit, verdictOf } from '../../../simulator/fleet/fleet-verdict.ts'
import type { ServedPlan } from '../../../simulator/fleet/plan-served.ts'

const BAR_CHARS = 40
/** Beyond it, the profile says little about the engines that were measured. */
export const PROFILE_ERROR_SHARE_MAX = 0.25

const count = (value: number): string => value.toLocaleString('en-US')
const noun = (number: number, one: string): string => `${count(number)} ${one}${number === 1 ? '' : 's'}`

/** What was served, and how well the profile describes the engines that served it. */
export function servedWords(
  { served, p95_as_served, too_long, candidates }: ServedPlan,
  question: FleetQuestion,
): string {
  const { target } = question
  const profile = candidates[0]?.profile ?? ''
  const lines = [
    `${noun(served.programs, 'program')} with ${noun(served.calls, 'call')} began within ${minutes(served.span_s)}, on ${noun(served.engines, 'engine')}; ` +
      `measured p95: ${inUnit(target, served.p95)}.`,
    `Played on as many engines of ${profile}: ${inUnit(target, p95_as_served)}.${profileAdvice(served.p95, p95_as_served)}`,
  ]
  if (too_long > 0)
    lines.push(`${noun(too_long, 'program')} had calls longer than the context of a profile, and were left out.`)
  return lines.join('\n')
}

function profileAdvice(measured: number, played: number): string {
  if (measured > 0 && Math.abs(played / measured - 1) <= PROFILE_ERROR_SHARE_MAX) return ''
  return ' They differ: if you plan with the engines that you have, measure their profile (npm run calibrate) and give it with --profile.'
}

/** Of the best candidate, a bar for each size that was played. */
export function curveLines({ played }: Candidate, { target }: FleetQuestion): string {
  const most = played.reduce((largest, { p95 }) => Math.max(largest, p95), 0)
  const title = target.measure === 'program_s' ? 'p95 s' : 'p95 ms/token'
  const bars = played.map(({ engines, p95, meets }) => {
    const bar = '#'.repeat(Math.max(1, Math.round((BAR_CHARS * p95) / most)))
    return `${String(engines).padStart(7)}  ${p95.toFixed(1).padStart(title.length)}  ${bar}${meets ? '  meets it' : ''}`
  })
  return [`engines  ${title}`, ...bars].join('\n')
}

export function verdictWords(candidates: readonly Candidate[], question: FleetQuestion): string {
  const { sentence, advice } = verdictOf(candidates, question)
  const { max } = question.range
  if (advice === 'more_engines')
    return `${sentence} Try more (--engines ${max}..${max * 4}), another profile, or a higher target.`
  if (advice === 'floor')
    return `${sentence} More engines hardly change it: what is left is the time of tools and the speed of a single call.`
  return advice === 'more_traffic' ? `${sentence} Plan with more of it (--since) to see.` : sentence
}

function minutes(seconds: number): string {
  return seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`
}
