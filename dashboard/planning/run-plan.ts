/** Loads what ended here, and has a thread plan with it. */
import * as z from 'zod'
import { ask, segment } from '../api.ts'
import type { PlanMessage, PlanRequest } from './messages.ts'

/** Of all tenants together. */
export const PROGRAMS_MAX = 5_000
const PAGE_ROWS = 100
const Page = z.object({ data: z.array(z.unknown()), next_cursor: z.string().nullable() })
const Tenants = z.object({
  data: z.array(z.object({ id: z.string(), weight: z.number() })),
  next_cursor: z.string().nullable(),
})

export type Tenants = PlanRequest['tenants']

/** `own`: a tenant's own programs. Null: all tenants', for the operator. `onRead`: so many programs have been read. */
export async function readServed(
  own: string | null,
  since: string,
  signal: AbortSignal,
  onRead: (programs: number) => void,
): Promise<{ tenants: Tenants; cut: boolean }> {
  const known = own === null ? await allTenants(signal) : [{ id: own, weight: 1 }]
  const tenants: Tenants = []
  let read = 0
  for (const { id, weight } of known) {
    const base = own === null ? `/admin/v1/tenants/${segment(id)}/trace` : '/v1/trace'
    const programs: unknown[] = []
    let cursor: string | null = null
    do {
      const after: string = cursor === null ? '' : `&cursor=${segment(cursor)}`
      const page: z.infer<typeof Page> = await ask(`${base}?since=${since}&limit=${PAGE_ROWS}${after}`, Page, {
        signal,
      })
      programs.push(...page.data)
      read += page.data.length
      onRead(read)
      cursor = page.next_cursor
    } while (cursor !== null && read < PROGRAMS_MAX)
    if (programs.length > 0) tenants.push({ tenant: id, weight, programs })
    if (cursor !== null) return { tenants, cut: true }
  }
  return { tenants, cut: false }
}

async function allTenants(signal: AbortSignal) {
  const tenants: z.infer<typeof Tenants>['data'] = []
  let cursor: string | null = null
  do {
    const after: string = cursor === null ? '' : `&cursor=${segment(cursor)}`
    const page: z.infer<typeof Tenants> = await ask(`/admin/v1/tenants?limit=${PAGE_ROWS}${after}`, Tenants, { signal })
    tenants.push(...page.data)
    cursor = page.next_cursor
  } while (cursor !== null)
  return tenants
}

/** The last message is the answer. `signal` ends the thread. */
export async function planInThread(
  request: PlanRequest,
  signal: AbortSignal,
  onPlaying: (playing: Extract<PlanMessage, { kind: 'playing' }>) => void,
): Promise<Exclude<PlanMessage, { kind: 'playing' }>> {
  const { WORKER_URL } = await import('./worker.ts')
  return new Promise((resolve, reject) => {
    const thread = new Worker(WORKER_URL, { type: 'module' })
    const stop = () => {
      thread.terminate()
      reject(new Error('stopped'))
    }
    signal.addEventListener('abort', stop)
    thread.onerror = ({ message }) => {
      thread.terminate()
      reject(new Error(message || 'The thread that plays the plan could not start.'))
    }
    thread.onmessage = ({ data }: MessageEvent<PlanMessage>) => {
      if (data.kind === 'playing') return onPlaying(data)
      signal.removeEventListener('abort', stop)
      thread.terminate()
      resolve(data)
    }
    thread.postMessage(request)
  })
}
