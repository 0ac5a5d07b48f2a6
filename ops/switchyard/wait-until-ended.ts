/** Waits for what runs by itself, and shows how far it is. A control plane that restarts meanwhile is waited for. */
import { withProgress } from '../../cli/progress.ts'
import { CommandFailure, type Row } from './client.ts'

const POLL_MS = 1_000
/** Longer than a control plane takes to come back. */
const UNREACHABLE_MS_MAX = 60_000

/** `describe`: how far it is. */
export async function waitUntilEnded(
  label: string,
  ask: () => Promise<Row>,
  hasEnded: (row: Row) => boolean,
  describe: (row: Row) => string,
): Promise<Row> {
  let row = await ask()
  let answered_ms = performance.now()
  const work = async (): Promise<Row> => {
    while (!hasEnded(row)) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      try {
        row = await ask()
        answered_ms = performance.now()
      } catch (error) {
        const is_away = error instanceof CommandFailure && error.kind === 'unreachable'
        if (!is_away || performance.now() - answered_ms > UNREACHABLE_MS_MAX) throw error
      }
    }
    return row
  }
  return withProgress(label, work, () => describe(row))
}
