/**
 * `switchyard plan`: how many engines the programs that ended on this system would need to meet a target. The archive gives the
 * programs, and the simulator plays them in this process.
 */
import { writeFileSync } from 'node:fs'
import { textTable } from '../../../cli/table.ts'
import { fleetColumns } from '../../../simulator/fleet/fleet-table.ts'
import { costOf } from '../../../simulator/fleet/fleet-verdict.ts'
import { planServed, type ServedPlan } from '../../../simulator/fleet/plan-served.ts'
import { modelsOf, ofModel, type TenantPrograms } from '../../../simulator/fleet/served-programs.ts'
import { CommandFailure, ROWS_MAX } from '../client.ts'
import type { Answer, Asked, OperatorCommand } from '../command.ts'
import { PLAN_FLAGS, type PlanAsked, planAsked } from './plan-flags.ts'
import { curveLines, servedWords, verdictWords } from './plan-words.ts'
import { readServed, sinceOf } from './read-served.ts'

export const PLAN_COMMANDS: readonly OperatorCommand[] = [
  {
    words: ['plan'],
    ...{ args: [], flags: PLAN_FLAGS },
    purpose: 'how many engines the programs that ended here would need to meet a target',
    run: (asked) => plan(asked),
  },
]

async function plan({ client, text, json }: Asked): Promise<Answer> {
  const asked = planAsked(text)
  const since = sinceOf(asked.since, Date.now())
  const read = await readServed(client, since, text('tenant'))
  if (read.tenants.length === 0) {
    const why = 'A program is in the archive once its client has ended it, or half an hour after its last call'
    throw new CommandFailure('refused', `no program that began within ${asked.since} has ended. ${why}`)
  }
  const tenants = chosen(read.tenants, text('model'))
  const save = text('save')
  if (save !== undefined) writeFileSync(save, traceOf(tenants))
  const found = await planServed({ ...asked, tenants }, (profile, engines) => {
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2KPlaying ${engines} engines of ${profile} …`)
  })
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[2K')
  if (found === null)
    throw new CommandFailure('refused', 'every program has a call longer than the context of a profile')
  if (json) return { kind: 'one', row: jsonOf(found, asked) }
  const cut = read.cut ? `A tenant has more than ${ROWS_MAX} programs: those that ended last were played.\n` : ''
  console.log(
    [
      `${cut}${servedWords(found, asked)}`,
      textTable(fleetColumns(asked, found.candidates), found.candidates),
      ...found.candidates.slice(0, 1).map((best) => curveLines(best, asked)),
      verdictWords(found.candidates, asked),
    ].join('\n\n'),
  )
  return { kind: 'done' }
}

/** Engines serve one model each. */
function chosen(tenants: readonly TenantPrograms[], model: string | undefined): TenantPrograms[] {
  const models = modelsOf(tenants)
  if (model === undefined && models.length > 1)
    throw new CommandFailure('usage', `several models were called: choose with --model ${models.join(' or ')}`)
  const of = ofModel(tenants, model ?? models[0] ?? '')
  if (of.length > 0) return of
  throw new CommandFailure('refused', `no program called ${model} alone; these were called: ${models.join(', ')}`)
}

function traceOf(tenants: readonly TenantPrograms[]): string {
  const lines = tenants.flatMap(({ programs }) =>
    programs.map(({ id, workload, app_prefix_tokens, arrival_seconds, calls }) =>
      JSON.stringify({ id, workload, app_prefix_tokens, arrival_seconds, calls }),
    ),
  )
  return `${lines.join('\n')}\n`
}

function jsonOf({ candidates, ...rest }: ServedPlan, { target, range: engines, gpu_cost }: PlanAsked) {
  const found = candidates.map((one) => ({ ...one, cost_per_hour: costOf(one, gpu_cost) }))
  return { format: 1, target, engines, gpu_cost, ...rest, candidates: found }
}
