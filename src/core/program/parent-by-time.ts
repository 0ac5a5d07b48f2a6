/**
 * Which call another one goes on from where nothing but times tells: the latest one that had ended when it began. A call that
 * begins while others are open, and after none has ended, goes on from none.
 */
export interface TimedCall {
  started_ms: number
  /** Null: not known. Then the start stands for it. */
  ended_ms: number | null
}

/** `calls` by start. The answer is a position before `index`. */
export function parentByTime(calls: readonly TimedCall[], index: number): number | null {
  const { started_ms } = calls[index] as TimedCall
  let parent: number | null = null
  for (let at = 0; at < index; at += 1) {
    const call = calls[at] as TimedCall
    if (call.ended_ms !== null && call.ended_ms > started_ms) continue
    const best_ms = parent === null ? null : endOf(calls[parent] as TimedCall)
    if (best_ms === null || endOf(call) >= best_ms) parent = at
  }
  return parent
}

function endOf({ started_ms, ended_ms }: TimedCall): number {
  return ended_ms ?? started_ms
}
