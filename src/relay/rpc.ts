/**
 * One question to an actor, with an end. The platform says of an exception whether the same question may be asked again
 * (`retryable`) and whether that would only make things worse (`overloaded`); a stub that threw is of no further use.
 */
import { type Within, within } from './deadline.ts'

export type Reply<T> = { status: 'answered'; value: T } | { status: 'failed'; error: unknown } | { status: 'late' }

/** Asks at most twice within `limit_ms`. `ask` gets a new stub each time. */
export async function askActor<T>(ask: () => Promise<T>, limit_ms: number): Promise<Reply<T>> {
  const waited: Within<Reply<T>> = await within(askTwice(ask), limit_ms)
  return waited.status === 'in_time' ? waited.value : waited
}

/** As `askActor` without the end: for what nobody waits for. */
export async function askTwice<T>(ask: () => Promise<T>): Promise<Reply<T> & { status: 'answered' | 'failed' }> {
  const first = await answerOf(ask)
  if (first.status === 'answered' || !mayAskAgain(first.error)) return first
  return answerOf(ask)
}

async function answerOf<T>(ask: () => Promise<T>): Promise<Reply<T> & { status: 'answered' | 'failed' }> {
  try {
    return { status: 'answered', value: await ask() }
  } catch (error) {
    return { status: 'failed', error }
  }
}

function mayAskAgain(error: unknown): boolean {
  const { retryable, overloaded } = error as { retryable?: unknown; overloaded?: unknown }
  return retryable === true && overloaded !== true
}
