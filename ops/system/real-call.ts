/**
 * A system is ready when a call through its public address succeeds, and not before: a chat, or an embedding where its model
 * writes no text. The call is a program of its own, which is ended, so that it is not among those that run.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const RETRY_INTERVAL_MS = 150
const CALL_TIMEOUT_MS = 30_000
const PROGRAM = 'switchyard-up-trial'

/** `final`: repeating the call would change nothing. */
export type CallOutcome = { ok: true; serves: 'text' | 'embeddings' } | { ok: false; reason: string; final: boolean }

/** Calls until one succeeds or `timeout_ms` have passed; then the last refusal is the reason. `failed`: why one did not, in short. */
export async function waitForRealCall(
  url: string,
  apiKey: string,
  model: string,
  timeout_ms: number,
  signal: AbortSignal,
  failed: (why: string) => void = () => undefined,
): Promise<CallOutcome> {
  const deadline_ms = performance.now() + timeout_ms
  for (;;) {
    const outcome = await realCall(url, apiKey, model)
    if (outcome.ok) await endProgram(url, apiKey)
    if (outcome.ok || outcome.final || signal.aborted || performance.now() > deadline_ms) return outcome
    failed(inShort(outcome.reason))
    await sleep(RETRY_INTERVAL_MS)
  }
}

/** The message of an error that is told in JSON. */
function inShort(reason: string): string {
  const message = /"message":"((?:[^"\\]|\\.)*)"/.exec(reason)?.[1]
  return (message === undefined ? reason : message.replaceAll('\\"', '"')).slice(0, 200)
}

async function realCall(url: string, apiKey: string, model: string): Promise<CallOutcome> {
  const chat = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 }
  const answered = await ask(`${url}/v1/chat/completions`, apiKey, { model, ...chat }, 'choices')
  if (answered === null) return { ok: true, serves: 'text' }
  if (!answered.reason.includes('"generation_unsupported"')) return { ok: false, ...answered }
  const embedded = await ask(`${url}/v1/embeddings`, apiKey, { model, input: 'Hello' }, 'data')
  return embedded === null ? { ok: true, serves: 'embeddings' } : { ok: false, ...embedded }
}

/** Null: one answer came, in `list`. */
async function ask(
  url: string,
  apiKey: string,
  call: object,
  list: 'choices' | 'data',
): Promise<{ reason: string; final: boolean } | null> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...headersOf(apiKey), 'content-type': 'application/json', 'x-program-id': PROGRAM },
      body: JSON.stringify(call),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    })
    const text = await response.text()
    if (!response.ok) {
      const reason = `answered ${response.status}: ${text.slice(0, 400)}`
      return { reason, final: response.status === 400 }
    }
    const body = JSON.parse(text) as Record<string, unknown[] | undefined>
    return body[list]?.length === 1 ? null : { reason: `answered ${text.slice(0, 400)}`, final: true }
  } catch (error) {
    const { message, cause } = error as Error
    return { reason: cause instanceof Error ? `${message}: ${cause.message}` : message, final: false }
  }
}

/** Without an answer it ends by itself, as a program does that makes no call. */
async function endProgram(url: string, apiKey: string): Promise<void> {
  const init = { method: 'DELETE', headers: headersOf(apiKey), signal: AbortSignal.timeout(CALL_TIMEOUT_MS) }
  const response = await fetch(`${url}/v1/programs/${PROGRAM}`, init).catch(() => null)
  await response?.body?.cancel()
}

function headersOf(apiKey: string): Record<string, string> {
  return { authorization: `Bearer ${apiKey}` }
}
