/**
 * One question to an actor, with a time limit. The platform marks an exception as `retryable` (the same question may be
 * asked again) and as `overloaded` (asking again would make things worse). A stub that threw cannot be used again.
 */
import { type Within, within } from '../platform/deadline.ts'

export type Reply<T> = { status: 'answered'; value: T } | { status: 'failed'; error: unknown } | { status: 'late' }

/** Asks at most twice within `limit_ms`. `ask` gets a new stub each time. */
export async function askActor<T>(ask: () => Promise<T>, limit_ms: number): Promise<Reply<T>> {
  const waited: Within<Reply<T>> = await within(askTwice(ask), limit_ms)
  return waited.status === 'in_time' ? waited.value : waited
}

/** As `askActor` without the time limit, for questions whose answer no caller awaits. */
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
