/** The flags of `npm run simulate -- run` for policies that handle contexts while tools run, and what they are told of calls. */
import { HANDLINGS } from '../../gpu-agent/engine/memory/handling/waste.ts'
import type { PolicyTuning } from '../policies/index.ts'
import type { ForecastSource } from '../world/call-forecasts.ts'
import { FlagError, integer, list, number, oneOf } from './flag-values.ts'

const TEXT = { type: 'string' } as const
export const MEMORY_OPTIONS = {
  forecast: { ...TEXT, default: 'learned' },
  'forecast-error': TEXT,
  handling: TEXT,
  'hidden-swaps': TEXT,
  revise: TEXT,
  'starvation-iterations': TEXT,
  starvation: TEXT,
  'refresh-tokens': TEXT,
  rank: TEXT,
} as const

export type MemoryValues = { [K in keyof typeof MEMORY_OPTIONS]?: string | undefined } & { forecast: string }

const STARVATION = { 'until-completion': 'until_completion', 'at-promotion': 'at_promotion' } as const
const RANKS = { 'memory-over-time': 'memory_over_time', 'first-come': 'first_come' } as const

/** Of the policies that handle contexts while tools run. */
export function memoryTuning(values: MemoryValues): Pick<PolicyTuning, 'lamps' | 'handling'> {
  const { handling, starvation, rank } = values
  const on = (flag: 'hidden-swaps' | 'revise') => {
    const text = values[flag]
    return text === undefined ? undefined : oneOf(`--${flag}`, text, ['on', 'off'] as const) === 'on'
  }
  const count = (flag: 'starvation-iterations' | 'refresh-tokens') => {
    const text = values[flag]
    return text === undefined ? undefined : integer(`--${flag}`, text, 1, 1e9)
  }
  const lamps = {
    starvation_iterations: count('starvation-iterations'),
    refresh_tokens: count('refresh-tokens'),
    starvation:
      starvation === undefined ? undefined : STARVATION[oneOf('--starvation', starvation, keysOf(STARVATION))],
    order: rank === undefined ? undefined : RANKS[oneOf('--rank', rank, keysOf(RANKS))],
  }
  const rule = {
    allowed: handling === undefined ? undefined : list(handling, (name) => oneOf('--handling', name, HANDLINGS)),
    hidden_swaps: on('hidden-swaps'),
    revises: on('revise'),
  }
  return { lamps: given(lamps), handling: given(rule) }
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Without what is undefined. */
export function given<T extends object>(values: T): Given<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Given<T>
}

function keysOf<K extends string>(record: Readonly<Record<K, unknown>>): K[] {
  return Object.keys(record) as K[]
}

export function forecastOf({ forecast, 'forecast-error': error }: MemoryValues): ForecastSource {
  const kind = oneOf('--forecast', forecast, ['learned', 'oracle', 'none'] as const)
  if (error !== undefined && kind !== 'oracle') throw new FlagError('--forecast-error needs --forecast oracle')
  if (kind !== 'oracle') return { kind }
  return { kind, error: error === undefined ? 0 : number('--forecast-error', error, { above: 0, max: 10 }) }
}
