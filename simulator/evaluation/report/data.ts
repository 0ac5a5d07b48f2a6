/** The report as evaluation.json: what the page says, as numbers, and every run on a line of its own. */

import type { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { changesOf, type RunSpec } from '../runs/run-spec.ts'
import type { Interval } from '../statistics/interval.ts'
import { panelFile } from './markdown.ts'
import { figureCommand } from './provenance.ts'
import { goals, type ReadFigure, type Report } from './report.ts'

/** Digits of a run's figures: a page of sentences does not need sixteen. */
const DIGITS = 6

export function evaluationJson(report: Report, runs: Runs): string {
  const { provenance, unfinished, figures } = report
  const head = JSON.stringify(
    {
      provenance,
      unfinished,
      goals: goals(figures),
      compared: compared(figures),
      figures: figures.map((one) => figureData(report, one)),
    },
    null,
    1,
  )
  // Threads finish in any order.
  const lines = runs
    .all()
    .map(({ spec, outcome }) => JSON.stringify({ ...specData(spec), ...outcomeData(outcome) }, shortened))
    .sort()
  return `${head.replace(/\n}$/, '')},\n "runs": [\n${lines.join(',\n')}\n ]\n}\n`
}

function compared(figures: readonly ReadFigure[]): object[] {
  return figures.flatMap(({ figure, paper }) =>
    (paper ?? []).map(({ ours, ...row }) => ({
      figure: figure.id,
      ...row,
      ours: ours === null ? null : intervalData(ours),
      ratio: ours === null || row.paper === null ? null : ours.mean / row.paper,
    })),
  )
}

function intervalData({ mean, half_width, samples }: Interval): object {
  return { mean, half_width_95: half_width, seeds: samples }
}

function figureData({ provenance }: Report, { figure, panels, shows, losses, tables }: ReadFigure): object {
  const { id, title, paper, setup } = figure
  return {
    ...{ id, title, paper, setup, command: figureCommand(provenance, figure) },
    panels: panels.map(({ name, alt }) => ({ file: panelFile(id, name), alt })),
    ...{ shows, losses, tables: tables ?? [] },
  }
}

function specData(spec: RunSpec): object {
  const { workload, system, rate, programs, seed } = spec
  return { workload, system, rate, programs, seed, ...changesOf(spec) }
}

/** Keys as in `npm run simulate -- run --json`. */
function outcomeData(outcome: RunOutcome): object {
  const { wait_s, service_s, cached_tokens, prompt_tokens } = outcome
  return {
    program_token_latency_ms: outcome.token_latency_ms,
    program_latency_s: outcome.response_s,
    makespan_s: outcome.makespan_s,
    wait_share: wait_s / (wait_s + service_s),
    preemptions: outcome.preemptions,
    swapped_out_tokens: outcome.swapped_out_tokens,
    swapped_in_tokens: outcome.swapped_in_tokens,
    cached_prompt_share: cached_tokens / prompt_tokens,
    decisions: outcome.decisions,
  }
}

function shortened(_: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(DIGITS)) : value
}
