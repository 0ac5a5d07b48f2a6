/** Regions, their engines, and how far apart they are. */
import { AGENTS_PER_POOL_MAX } from '../../src/core/pool/pool-table.ts'
import { ENGINES_PER_AGENT_MAX } from '../../src/protocol/link.ts'
import { FlagError, integer, list, number } from './flag-values.ts'
import { type Fleet, fleetOf } from './play-plan.ts'

const ENGINES_PER_REGION_MAX = AGENTS_PER_POOL_MAX * ENGINES_PER_AGENT_MAX
const RTT_MS_MAX = 60_000

/** `--engines` in one region, each number a fleet, or the one fleet of `--regions`. */
export function parseFleets(regions: string | undefined, engines: string | undefined): Fleet[] {
  if (regions === undefined) return list(engines ?? '1', (count) => parseEngines(count)).map(fleetOf)
  if (engines !== undefined) throw new FlagError('--regions says how many engines there are: leave --engines out')
  const parsed = list(regions, (text) => {
    const [name = '', count = '', ...rest] = text.split(':')
    if (!/^[A-Za-z0-9_]+$/.test(name) || rest.length > 0) {
      throw new FlagError(`--regions takes NAME:ENGINES, names of letters, digits and _, not ${text}`)
    }
    return { name, engines: integer(`--regions ${name}`, count, 1, ENGINES_PER_REGION_MAX) }
  })
  const names = new Set(parsed.map(({ name }) => name))
  if (names.size < parsed.length) throw new FlagError('--regions names a region twice')
  return [parsed]
}

/** `flag`: what it was given by. */
export function parseEngines(text: string, flag = '--engines'): number {
  return integer(flag, text, 1, ENGINES_PER_REGION_MAX)
}

/** Microseconds by `A-B`. */
export function parseRtt(text: string | undefined, regions: Fleet): Map<string, number> {
  const rtt_us = new Map<string, number>()
  if (text === undefined) return rtt_us
  for (const item of list(text, (one) => one)) {
    const [pair = '', ms = '', ...rest] = item.split(':')
    const [from = '', to = '', ...more] = pair.split('-')
    if (rest.length > 0 || more.length > 0) throw new FlagError(`--rtt takes A-B:MS, not ${item}`)
    for (const name of [from, to]) {
      if (!regions.some((region) => region.name === name))
        throw new FlagError(`--rtt ${item}: there is no region ${name}`)
    }
    if (from === to) throw new FlagError(`--rtt ${item}: a region is at no distance from itself`)
    if (rtt_us.has(pair) || rtt_us.has(`${to}-${from}`)) throw new FlagError(`--rtt says ${pair} twice`)
    rtt_us.set(pair, Math.round(number(`--rtt ${pair}`, ms, { above: -1e-9, max: RTT_MS_MAX }) * 1000))
  }
  return rtt_us
}
