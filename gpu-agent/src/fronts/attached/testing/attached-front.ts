/** The front of a server with two routes, as `--engine openai` makes it, with what it reports at hand. */
import { onTestFinished } from 'vitest'
import type { LedgerRow } from '../../../../engine/types.ts'
import type { AgentEvent } from '../../../events.ts'
import { createFront } from '../../create-front.ts'
import type { EngineFront } from '../../engine-front.ts'
import type { FrontOptions } from '../../front-options.ts'
import { dispatched, user } from '../../testing/dispatched.ts'
import { RecordingSink } from '../../testing/recording-sink.ts'
import type { ServerOptions } from '../server-options.ts'
import { SharedServer } from '../shared-server.ts'

export interface AttachedFront {
  front: EngineFront
  events: AgentEvent[]
  reports: string[]
  rows: LedgerRow[]
  serve(
    body?: Record<string, unknown>,
    claims?: Parameters<typeof dispatched>[2],
  ): { sink: RecordingSink; lease: string; ended: Promise<void> }
}

export async function attachFront(
  url: string,
  given: Partial<Omit<FrontOptions, 'server'>> = {},
  server: Partial<ServerOptions & { model: string }> = {},
  shared = new SharedServer(),
): Promise<AttachedFront> {
  const events: AgentEvent[] = []
  const reports: string[] = []
  const rows: LedgerRow[] = []
  const known = { url, key_variable: null, api_key: null, kind: null, models: null, kv_tokens: null }
  const options: FrontOptions = {
    ...{ engine: 'openai', id: 'agent-e0', model_id: 'm', policy: 'plas', context_tokens: 4096, ...given },
    server: { ...known, probe: false, start_limit_ms: 1, model: 'plain', limits: [], further_keys: [], ...server },
  }
  const leaving = new AbortController().signal
  const host = { report: (event: AgentEvent) => void events.push(event), leaving, lost: [], shared }
  const front = await createFront(
    options,
    { ledger: (more) => rows.push(...more), status: () => undefined, epoch: () => undefined },
    undefined,
    (message) => void reports.push(message),
    host,
  )
  onTestFinished(() => front.stop())
  const serve: AttachedFront['serve'] = (body = {}, claims = {}) => {
    const sink = new RecordingSink()
    const call = dispatched(front.describe().epoch, { messages: user('Hi'), ...body }, claims)
    front.serve(call, sink)
    return { sink, lease: call.claims.lease, ended: sink.over.then(() => undefined) }
  }
  return { front, events, reports, rows, serve }
}
