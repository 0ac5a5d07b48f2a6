/**
 * What `learned` is worth when engines know less than they could, know what is no longer so, or are lied to; and what its tail
 * costs.
 */
import type { Figure } from '../figure.ts'
import { MissingRun } from '../runs/run-chains.ts'
import { adversarySpecs, readAdversaries } from './knowledge/adversaries.ts'
import { frontierSpecs, readFrontier } from './knowledge/frontier.ts'
import { LONG, SHORT } from './knowledge/load.ts'
import { readRecovery, recoverySpecs } from './knowledge/recovery.ts'
import { readSettings, settingsSpecs } from './knowledge/settings.ts'
import { HISTORY } from './learned.ts'

export const LEARNED_KNOWLEDGE: Figure = {
  id: 'learned-knowledge',
  title: 'Learned: with less knowledge, and against lies',
  paper: null,
  setup:
    `On a100-8b with 128 seats, in overload, where an order matters. Loads are times about what an engine serves (figure learned). ${SHORT} and ${LONG}: short programs and long ones, ` +
    `each half of the work. Warm: ${HISTORY} programs of the workload (of the first of two) ended before the run. Several engines: as many times the programs and the rate, cost-aware balancer. ` +
    `“The best other” is the least mean of orders that know nothing, seed by seed.`,
  chains: (scope) =>
    [recoverySpecs, adversarySpecs, settingsSpecs, frontierSpecs].map((specs) => ({ steps: [specs(scope)] })),
  read: (runs, scope) => {
    const settings = readSettings(runs, scope)
    const recovery = readRecovery(runs, scope)
    const adversaries = readAdversaries(runs, scope)
    const frontier = readFrontier(runs, scope)
    const tables = [settings.table, recovery.table, adversaries.table, ...frontier.tables]
    if (tables.every(({ rows }) => rows.length === 0)) throw new MissingRun('nothing of learned-knowledge')
    const goals = [...settings.goals, ...recovery.goals, ...adversaries.goals, ...frontier.goals]
    return {
      panels: [...recovery.panels, ...frontier.panels],
      shows: [...settings.shows, ...recovery.shows, ...adversaries.shows, ...frontier.shows],
      losses: goals
        .filter(({ met }) => met === false)
        .map(({ goal, target, ours }) => `${goal}: ${ours}, the goal is ${target}.`),
      tables: tables.filter(({ rows }) => rows.length > 0),
      goals,
    }
  },
}
