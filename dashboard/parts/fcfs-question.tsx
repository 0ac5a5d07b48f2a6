/** Asks on request what the calls of a program would have waited under first come, first served. */
import { useState } from 'hono/jsx/dom'
import { FcfsWaits, notEstimated } from '../../src/protocol/fcfs-waits.ts'
import { ask } from '../api.ts'
import { count, seconds } from '../format.ts'

interface Question {
  /** Of the program. */
  path: string
  waits: FcfsWaits | null
  told: (waits: FcfsWaits) => void
}

export function FcfsQuestion({ path, waits, told }: Question) {
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<string | null>(null)
  const question = () => {
    setBusy(true)
    ask(`${path}/fcfs`, FcfsWaits).then(
      (answer) => {
        setBusy(false)
        setFailure(null)
        told(answer)
      },
      (error: unknown) => {
        setBusy(false)
        setFailure(error instanceof Error ? error.message : String(error))
      },
    )
  }
  return (
    <div class="question">
      <button type="button" disabled={isBusy} onClick={question}>
        And under first come, first served?
      </button>
      {failure === null ? null : (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {waits === null ? null : <p role="status">{sentences(waits).join(' ')}</p>}
    </div>
  )
}

function sentences(waits: FcfsWaits): string[] {
  const { estimated_calls, fcfs_wait_s, wait_s, calls } = waits
  const unknown = notEstimated(waits).map((sentence) => `Not estimated: ${sentence}`)
  if (estimated_calls === 0) return unknown
  const least = calls.some(({ at_least }) => at_least) ? 'at least' : 'about'
  return [
    `${count(estimated_calls)} calls would have waited ${least} ${seconds(fcfs_wait_s)} instead of ${seconds(wait_s)}.`,
    'That is an estimate: the last arrivals of their engines, replayed in that order with the service that each call got. It has the waits for a seat and for room, and not those for an engine’s next step.',
    ...unknown,
  ]
}

/** By call. One that moved between engines has waited on each. */
export function fcfsTexts({ calls }: FcfsWaits): Map<string, string> {
  const sums = new Map<string, { wait_s: number; at_least: boolean }>()
  for (const { id, fcfs_wait_s, at_least } of calls) {
    if (fcfs_wait_s === null) continue
    const sum = sums.get(id) ?? { wait_s: 0, at_least: false }
    sums.set(id, { wait_s: sum.wait_s + fcfs_wait_s, at_least: sum.at_least || at_least })
  }
  const text = ({ wait_s, at_least }: { wait_s: number; at_least: boolean }) =>
    `${at_least ? '≥' : '~'} ${seconds(wait_s)}`
  return new Map([...sums].map(([id, sum]) => [id, text(sum)]))
}
