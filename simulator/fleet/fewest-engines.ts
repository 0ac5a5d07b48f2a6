/**
 * Which number of engines to play next, to find the fewest that meet a target: from the least on twice as many each time until
 * one meets it, then halfway between the most that miss it and the fewest that meet it. It takes that more engines are never
 * worse. The result is safe without that: it met the target when it was played, and one engine fewer did not.
 */

export interface EngineRange {
  min: number
  max: number
}

/** Whether each number of engines that has been played met the target. */
export type Played = ReadonlyMap<number, boolean>

/** Null: the search is over. */
export function nextEngines({ min, max }: EngineRange, played: Played): number | null {
  const met = fewestEngines(played)
  const missed = mostThatMiss(played, met ?? Number.POSITIVE_INFINITY)
  if (met === null) {
    if (missed === null) return min
    return missed >= max ? null : Math.min(max, missed * 2)
  }
  if (met === min) return null
  const above = missed ?? min - 1
  return met - above === 1 ? null : above + Math.floor((met - above) / 2)
}

/** Null: none that was played met the target. */
export function fewestEngines(played: Played): number | null {
  const met = [...played].filter(([, meets]) => meets).map(([engines]) => engines)
  return met.length === 0 ? null : Math.min(...met)
}

function mostThatMiss(played: Played, below: number): number | null {
  const missed = [...played].filter(([engines, meets]) => !meets && engines < below).map(([engines]) => engines)
  return missed.length === 0 ? null : Math.max(...missed)
}
