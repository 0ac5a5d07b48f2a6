/** What a figure is: the runs that it needs, and what is read from them. Every sentence is made from the runs' outcomes. */
import type { Chain, Runs } from './runs/run-chains.ts'
import type { Interval } from './statistics/interval.ts'

export const PAPER_NAMES = ['autellix', 'lamps'] as const
export type PaperName = (typeof PAPER_NAMES)[number]

/** How much is played. */
export interface Scope {
  seeds: readonly number[]
  quick: boolean
  /** Of figure `learned`: the seats and loads to play. Absent: all. */
  part?: Part
}

/** A part of a grid of cells. An empty list stands for all. */
export interface Part {
  seats: readonly number[]
  loads: readonly number[]
}

/** Seeds of the evaluation, and how many of them, from the first on, ablations play: the whole takes half an hour on two cores. */
export interface Seeds {
  all: readonly number[]
  ablations: number
}

type Plays = Pick<Figure, 'every_seed' | 'first_seed'>

export function seedsOf({ every_seed, first_seed }: Plays, { all, ablations }: Seeds): readonly number[] {
  if (first_seed) return all.slice(0, 1)
  return every_seed ? all : all.slice(0, ablations)
}

export interface Panel {
  /** Unique within the figure; part of the file's name. */
  name: string
  /** In words, for readers who do not see it. */
  alt: string
  svg: string
}

export interface Table {
  title: string
  columns: readonly string[]
  rows: readonly (readonly string[])[]
}

/** One claim of the paper beside what was measured. */
export interface PaperRow {
  claim: string
  /** In the paper's own unit; null: it gives no number. */
  paper: number | null
  /** Null: could not be read from these runs; `note` says why. */
  ours: Interval | null
  /** The true value may be larger. */
  at_least?: boolean
  unit: string
  note?: string
}

/** What was to be reached, beside what was. */
export interface Goal {
  goal: string
  target: string
  ours: string
  /** Null: could not be read from these runs. */
  met: boolean | null
}

export interface FigureContent {
  panels: readonly Panel[]
  shows: readonly string[]
  /** Where we lose. */
  losses: readonly string[]
  tables?: readonly Table[]
  paper?: readonly PaperRow[]
  goals?: readonly Goal[]
}

export interface Figure {
  /** `12`, `beta`. */
  id: string
  title: string
  /** What the paper says that its figure shows; null: the paper has no such figure. */
  paper: string | null
  /** What is played, for the reader: workloads, engines, what differs from the paper. */
  setup: string
  /** One of the few that all seeds are played for; the others are ablations, which play fewer. */
  every_seed?: true
  /** Many long runs, played once each: no confidence intervals. */
  first_seed?: true
  chains: (scope: Scope) => readonly Chain[]
  read: (runs: Runs, scope: Scope) => FigureContent
}
