/**
 * The routes that agents call: the link (upgraded here, held by the PoolActor) and records. An agent's token names the
 * agent and its region. The agent may not speak for another one.
 */
import { createRoute, z } from '@hono/zod-openapi'
import { AGENT_HEADER, DRAINING_HEADER, TICKET_KID_HEADER } from '../actors/link-frames.ts'
import { hostsStub, poolActor, poolStub } from '../actors/stubs.ts'
import { boundRecord } from '../core/call/lease-terms.ts'
import type { ProvenRecord } from '../core/program/program-state.ts'
import type { Env } from '../env.ts'
import { apiError } from '../platform/api-error.ts'
import { log, logFailure } from '../platform/log.ts'
import { type CallRecord, Id, RecordAck, RecordBatch } from '../protocol/index.ts'
import { countLoweredRecords, countUnprovenRecords } from '../relay/call-counters.ts'
import { observeTpot } from '../relay/call-latencies.ts'
import { checkProof } from '../relay/lease-proof.ts'
import { flagAgent } from '../store/agent-flags.ts'
import { catalogue, type Region } from '../store/catalogue.ts'
import { noteLinked } from '../store/linked-pools.ts'
import { type AgentScope, HOST_LINK_PATH, LINK_PATH, limitBody, refusal, requireAgent, router } from './boundary.ts'
import { ErrorResponse } from './error-response.ts'
import { tooMany } from './route-parts.ts'
import { settleRecords } from './settle-records.ts'

/** RECORDS_PER_BATCH_MAX records of at most about 2.5 kB. */
export const RECORDS_BODY_BYTES_MAX = 512 * 1024

const security = [{ agentToken: [] }]

export const agentRoutes = router<AgentScope>()
agentRoutes.use('/agents/v1/*', requireAgent)
agentRoutes.use('/agents/v1/records', limitBody(RECORDS_BODY_BYTES_MAX))

agentRoutes.openapi(
  createRoute({
    method: 'get',
    path: LINK_PATH,
    security,
    request: { query: z.object({ region: Id, model: Id }) },
    responses: {
      101: { description: 'The link; see src/protocol/link.ts' },
      403: { description: 'Another region', content: { 'application/json': { schema: ErrorResponse } } },
      404: { description: 'Unknown model', content: { 'application/json': { schema: ErrorResponse } } },
      429: tooMany('The agent opens links, or sends over them, more often than it may'),
      426: { description: 'Not a WebSocket', content: { 'application/json': { schema: ErrorResponse } } },
    },
  }),
  async (c) => {
    const { region, model } = c.req.valid('query')
    const known = await catalogue(c.env)
    const { regions, models } = known
    const fault = linkFault(c.req.header('upgrade'), c.var.agent, region, regions)
    if (fault !== null) return fault
    const place = regions.find(({ id }) => id === region)
    if (place === undefined || !models.has(model)) {
      return apiError(404, { message: `There is no model "${model}".`, param: 'model', code: 'model_not_found' })
    }
    const shard = await poolActor(c.env, place, model).placeAgent(c.var.agent.agent)
    if (shard === null) return refusal(new Response(null, { status: 503 }))
    const waitUntil = (work: Promise<void>): void => c.executionCtx.waitUntil(work)
    await noteLinked({ env: c.env, waitUntil }, known, region, model)
    const headers = linkHeaders(c.var.agent)
    return opened(await poolStub(c.env, place, model, shard).fetch('https://pool/link', { headers }))
  },
)

agentRoutes.openapi(
  createRoute({
    method: 'get',
    path: HOST_LINK_PATH,
    security,
    request: { query: z.object({ region: Id }) },
    responses: {
      101: { description: 'The host link; see src/protocol/host.ts' },
      403: { description: 'Another region', content: { 'application/json': { schema: ErrorResponse } } },
      429: tooMany('The agent opens links, or sends over them, more often than it may'),
      426: { description: 'Not a WebSocket', content: { 'application/json': { schema: ErrorResponse } } },
    },
  }),
  async (c) => {
    const { region } = c.req.valid('query')
    const { regions } = await catalogue(c.env)
    const fault = linkFault(c.req.header('upgrade'), c.var.agent, region, regions)
    if (fault !== null) return fault
    return opened(await hostsStub(c.env).fetch('https://hosts/link', { headers: linkHeaders(c.var.agent) }))
  },
)

type LinkedAgent = AgentScope['Variables']['agent']

/** Why the agent may open no link in this region. */
function linkFault(
  upgrade: string | undefined,
  { agent, region: home, state }: LinkedAgent,
  region: string,
  regions: readonly Region[],
): Response | null {
  if (upgrade?.toLowerCase() !== 'websocket') {
    const message = 'The link must be opened as a WebSocket.'
    return apiError(426, { message, code: 'upgrade_required' }, { upgrade: 'websocket' })
  }
  if (state === 'removed') {
    const message = `The agent "${agent}" was removed. Enrol it under another id.`
    return apiError(403, { message, code: 'agent_removed' })
  }
  if (region !== home || !regions.some(({ id }) => id === region)) {
    const message = `The agent "${agent}" belongs to the region "${home}".`
    return apiError(403, { message, param: 'region', code: 'wrong_region' })
  }
  return null
}

function linkHeaders({ agent, ticket_kid, state }: LinkedAgent): Headers {
  return new Headers({
    upgrade: 'websocket',
    [AGENT_HEADER]: agent,
    [TICKET_KID_HEADER]: ticket_kid,
    [DRAINING_HEADER]: String(state === 'draining'),
  })
}

/** The headers of a fetched answer cannot be changed, and a refusal gets a request id. */
function opened(answer: Response): Response {
  return answer.webSocket === null ? refusal(new Response(answer.body, answer)) : answer
}

agentRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/agents/v1/records',
    security,
    request: { body: { content: { 'application/json': { schema: RecordBatch } }, required: true } },
    responses: {
      200: {
        description:
          'Leases whose records storage has confirmed, and those that were never granted; send the others again',
        content: { 'application/json': { schema: RecordAck } },
      },
      403: { description: 'Another agent’s records', content: { 'application/json': { schema: ErrorResponse } } },
    },
  }),
  async (c) => {
    const { agent, records } = c.req.valid('json')
    const foreign = agent !== c.var.agent.agent || records.some((record) => record.agent !== agent)
    if (foreign) {
      const message = `The token belongs to the agent "${c.var.agent.agent}".`
      return refusal(apiError(403, { message, param: 'agent', code: 'wrong_agent' }))
    }
    const { proven, lowered, refused } = await judge(records, c.env.TICKET_SECRET, Date.now())
    if (refused.length > 0) {
      countUnprovenRecords(refused.length)
      logFailure('records_unproven', `${refused.length} records`, { agent })
    }
    if (lowered.length > 0) c.executionCtx.waitUntil(flagLowered(c.env, agent, lowered))
    const acknowledged = await settleRecords(c.env, proven, (work) => c.executionCtx.waitUntil(work))
    const confirmed = new Set(acknowledged)
    for (const record of proven) if (confirmed.has(record.lease)) observeTpot(record)
    return c.json({ acknowledged, refused }, 200)
  },
)

interface Judged {
  /** As far as they can be true. */
  proven: ProvenRecord[]
  /** Records that stated more than their calls can have used, with the fields. */
  lowered: { lease: string; fields: string[] }[]
  /** Leases that were never granted. */
  refused: string[]
}

async function judge(records: readonly CallRecord[], secret: string, now_ms: number): Promise<Judged> {
  const judged: Judged = { proven: [], lowered: [], refused: [] }
  const proofs = await Promise.all(records.map((record) => checkProof(record, secret)))
  for (const [at, record] of records.entries()) {
    const proof = proofs[at]
    if (proof?.status !== 'proven') {
      judged.refused.push(record.lease)
      continue
    }
    const { terms } = proof
    const bounded = boundRecord(record, terms, now_ms)
    if (bounded.flags.length > 0) judged.lowered.push({ lease: record.lease, fields: bounded.flags })
    if (terms === null) judged.proven.push(bounded.record)
    else {
      const { speed_factor, key, granted_at_ms, reason } = terms
      const why = reason === null ? {} : { reason }
      judged.proven.push({ ...bounded.record, speed_factor, key, granted_at_ms, ...why })
    }
  }
  return judged
}

async function flagLowered(env: Env, agent: string, lowered: Judged['lowered']): Promise<void> {
  countLoweredRecords(lowered.length)
  const [first] = lowered
  if (first === undefined) return
  log('warn', 'records_lowered', { agent, records: lowered.length, lease: first.lease, fields: first.fields.join(' ') })
  const seen = { records: lowered.length, ...first }
  await flagAgent(env.DB, { agent, action: 'agent.record_lowered', seen }, Date.now()).catch((error: unknown) =>
    logFailure('agent_not_flagged', error, { agent }),
  )
}
