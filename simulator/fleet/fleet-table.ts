/** A search for the fewest engines as a table of a terminal, a row for each profile, policy and balancer. */
import type { Column } from '../../cli/table.ts'
import type { Candidate } from './fleet-search.ts'
import { costOf, type FleetQuestion, oneFewer, shownOf } from './fleet-verdict.ts'

/** `candidates`: the rows. */
export function fleetColumns(
  { target, range, gpu_cost }: FleetQuestion,
  candidates: readonly Candidate[],
): Column<Candidate>[] {
  const right = (title: string, cell: (candidate: Candidate) => string): Column<Candidate> => ({
    ...{ title, align: 'right', cell },
  })
  const several = new Set(candidates.map(({ front }) => front)).size > 1
  return [
    { title: 'profile', cell: ({ profile }) => profile },
    { title: 'policy', cell: ({ policy }) => policy },
    ...(several ? [{ title: 'ordered by', cell: ({ front }: Candidate) => front }] : []),
    { title: 'balancer', cell: ({ balancer }) => balancer },
    right('engines', ({ fewest_engines }) => `${fewest_engines ?? `> ${range.max}`}`),
    right('GPUs', ({ fewest_engines, gpus }) => (fewest_engines === null ? '' : `${fewest_engines * gpus}`)),
    ...(gpu_cost === null ? [] : [right('cost/h', (one) => costOf(one, gpu_cost)?.toFixed(2) ?? '')]),
    right(target.measure === 'program_s' ? 'p95 s' : 'p95 ms/token', (one) => shownOf(one).p95.toFixed(1)),
    right('worst seed', (one) => shownOf(one).p95_worst.toFixed(1)),
    right('one fewer', (one) => oneFewer(one)?.p95.toFixed(1) ?? ''),
    right('busy %', (one) => (shownOf(one).busy_share * 100).toFixed(0)),
    right('cached %', (one) => (shownOf(one).cached_prompt_share * 100).toFixed(0)),
    right('tokens/s', (one) => shownOf(one).output_tokens_per_s.toFixed(0)),
  ]
}
