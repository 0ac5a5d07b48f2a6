/**
 * /admin/v1/agents: enrolment, drain, removal. D1 says what an agent may do, and a link asks D1 when it opens; agents
 * that are linked are told at once through their pools. A pool that cannot be told then hears of it from the next link,
 * and the answer says so.
 */
import { createRoute, z } from '@hono/zod-openapi'
import type { PoolRpc } from '../../actors/contracts.ts'
import type { HostsRpc } from '../../actors/hosts-rpc.ts'
import { hostsActor, poolActor } from '../../actors/stubs.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { Id } from '../../protocol/index.ts'
import { type Agent, agentById, agentsPage, changeAgent, insertAgent } from '../../store/agents.ts'
import { freshCatalogue, type Region } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import { newSecret } from '../../store/secret-check.ts'
import { AGENT_TOKEN_PREFIX, hashSecret, ticketKidOf } from '../../store/secrets.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { atOnce } from '../bounded-concurrency.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, pageOf, pageStart } from '../route-parts.ts'
import { absent, exists, iso, isoOrNull, SECURITY as security } from './answers.ts'
import { askPool, POOLS_AT_ONCE_MAX } from './pools.ts'
import { AgentCreate, AgentCreated, AgentJson, AgentLive, IdParams } from './schemas.ts'

export const agentAdminRoutes = router<AdminScope>()

const NOT_FOUND = failure('No such agent, or it was removed')
const Changed = AgentJson.extend({
  pools_told: z.number().openapi({ description: 'Pools that have applied it' }),
  pools_unreachable: z.number().openapi({ description: 'Pools that apply it when the agent links next' }),
}).openapi('AgentChanged')

agentAdminRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/agents',
    security,
    request: jsonBody(AgentCreate),
    responses: {
      201: json(AgentCreated, 'Enrolled; the token is shown only once'),
      404: failure('No such region'),
      409: failure('An agent of this id exists, or was removed'),
    },
  }),
  async (c) => {
    const { id, region } = c.req.valid('json')
    const { auditor } = c.var
    const { regions } = await freshCatalogue(c.env)
    if (!regions.some((one) => one.id === region)) return refusal(absent('region', region, 'region'))
    const token = await newSecret(c.env.KEY_PEPPER, AGENT_TOKEN_PREFIX)
    const token_hash = await hashSecret(c.env.KEY_PEPPER, token)
    const { status } = await fromStore(() => insertAgent(c.env.DB, auditor, { id, region, token_hash, checked: true }))
    if (status === 'refused') return refusal(exists('agent', id))
    const agent = { id, region, state: 'active' as const, created_at_ms: auditor.at_ms, removed_at_ms: null }
    return c.json({ ...agentJson(agent), token }, 201)
  },
)

agentAdminRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/agents',
    security,
    request: { query: PageQuery.extend({ region: Id.optional() }) },
    responses: { 200: json(listOf(AgentJson), 'By id, the removed ones too'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor, region = null } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const filter = { region, after: start.position?.[0] ?? null }
    const rows = await fromStore(() => agentsPage(c.env.DB, filter, limit + 1))
    return c.json(
      pageOf(rows, limit, agentJson, ({ id }) => [id]),
      200,
    )
  },
)

agentAdminRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/agents/{id}',
    security,
    request: { params: IdParams },
    responses: { 200: json(AgentLive, 'The agent, and its engines as its pools know them'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const agent = await fromStore(() => agentById(c.env.DB, id))
    if (agent === null) return refusal(absent('agent', id))
    const pools = await poolsOf(c.env, agent.region)
    const answers = await atOnce(pools, POOLS_AT_ONCE_MAX, ({ region, model }) => askPool(c.env, region, model))
    const engines = answers.flatMap((pool) =>
      pool.engines
        .filter((engine) => engine.agent === id)
        .map(({ engine, state }) => ({ engine, model: pool.model, state })),
    )
    const complete = answers.every(({ reachable }) => reachable)
    return c.json({ ...agentJson(agent), engines: complete ? engines : null }, 200)
  },
)

agentAdminRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/agents/{id}/rotate',
    security,
    request: { params: IdParams },
    responses: { 200: json(AgentCreated, 'A new token; links under the old one are closed'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const token = await newSecret(c.env.KEY_PEPPER, AGENT_TOKEN_PREFIX)
    const token_hash = await hashSecret(c.env.KEY_PEPPER, token)
    const change = { token_hash, checked: true }
    const { status } = await fromStore(() => changeAgent(c.env.DB, c.var.auditor, id, 'rotate', change))
    const agent = status === 'refused' ? null : await fromStore(() => agentById(c.env.DB, id))
    if (agent === null) return refusal(absent('agent', id))
    const except_kid = ticketKidOf(token_hash)
    await tellPools(c.env, agent, (pool) => pool.refuseAgent({ agent: id, except_kid }))
    return c.json({ ...agentJson(agent), token }, 200)
  },
)

for (const [action, state] of [
  ['drain', 'draining'],
  ['undrain', 'active'],
] as const) {
  const done = { drain: 'Takes no further calls; those under way end', undrain: 'Takes calls again' }[action]
  agentAdminRoutes.openapi(
    createRoute({
      method: 'post',
      path: `/admin/v1/agents/{id}/${action}`,
      security,
      request: { params: IdParams },
      responses: { 200: json(Changed, done), 404: NOT_FOUND },
    }),
    async (c) => {
      const { id } = c.req.valid('param')
      const { status } = await fromStore(() => changeAgent(c.env.DB, c.var.auditor, id, action, { state }))
      const agent = status === 'refused' ? null : await fromStore(() => agentById(c.env.DB, id))
      if (agent === null) return refusal(absent('agent', id))
      const told = await tellPools(c.env, agent, (pool) => pool.drainAgent({ agent: id, draining: action === 'drain' }))
      return c.json({ ...agentJson(agent), ...told }, 200)
    },
  )
}

agentAdminRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/admin/v1/agents/{id}',
    security,
    request: { params: IdParams },
    responses: { 200: json(Changed, 'Removed: its links are closed and its id is not used again'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const { auditor } = c.var
    const change = { state: 'removed' as const, removed_at_ms: auditor.at_ms }
    const { status } = await fromStore(() => changeAgent(c.env.DB, auditor, id, 'remove', change))
    const agent = status === 'refused' ? null : await fromStore(() => agentById(c.env.DB, id))
    if (agent === null) return refusal(absent('agent', id))
    const told = await tellPools(c.env, agent, (pool) => pool.refuseAgent({ agent: id, except_kid: null }))
    return c.json({ ...agentJson(agent), ...told }, 200)
  },
)

/** An agent links to a pool per model that it serves, all in its own region. */
async function poolsOf(env: Env, region: string): Promise<{ region: Region; model: string }[]> {
  const { regions, models } = await freshCatalogue(env)
  const place = regions.find(({ id }) => id === region)
  return place === undefined ? [] : [...models.keys()].map((model) => ({ region: place, model }))
}

/** What holds an agent's links: its pools, and the actor that lends its GPUs. */
type Links = Pick<PoolRpc | HostsRpc, 'drainAgent' | 'refuseAgent'>

async function tellPools(env: Env, agent: Agent, tell: (links: Links) => Promise<void>) {
  const pools = await poolsOf(env, agent.region)
  const told = await atOnce(pools, POOLS_AT_ONCE_MAX, async ({ region, model }) => {
    try {
      await tell(poolActor(env, region, model))
      return true
    } catch (error) {
      logFailure('pool_not_told', error, { agent: agent.id, model })
      return false
    }
  })
  await tell(hostsActor(env)).catch((error: unknown) => logFailure('hosts_not_told', error, { agent: agent.id }))
  const pools_told = told.filter(Boolean).length
  return { pools_told, pools_unreachable: told.length - pools_told }
}

function agentJson({ created_at_ms, removed_at_ms, ...agent }: Agent): z.infer<typeof AgentJson> {
  return { ...agent, created_at: iso(created_at_ms), removed_at: isoOrNull(removed_at_ms) }
}
