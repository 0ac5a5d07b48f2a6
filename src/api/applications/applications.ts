/**
 * /v1/applications: several models over fixed inputs, each taking what others answer. An application's actor runs it; D1 has
 * the list of all, and those that have completed.
 */
import { createRoute, z } from '@hono/zod-openapi'
import { applicationActor } from '../../actors/stubs.ts'
import type { Env } from '../../env.ts'
import { apiError } from '../../platform/api-error.ts'
import { applicationById, type StoredApplication } from '../../store/applications.ts'
import { fromStore } from '../../store/database.ts'
import { fileStream } from '../../store/file-contents.ts'
import { fileById } from '../../store/files.ts'
import { limitBody, refusal, requireTenant, router, type TenantScope } from '../boundary.ts'
import { contentResponse, unknownAfter } from '../files/files.ts'
import { failure, json, jsonBody, tooMany } from '../route-parts.ts'
import {
  APPLICATION_BODY_BYTES_MAX,
  ApplicationList,
  ApplicationObject,
  ApplicationParams,
  ApplicationStart,
  applicationJson,
  NodeParams,
  PlanObject,
} from './application-json.ts'
import { ApplicationsQuery, applicationsList, currentApplication, ganttResponse } from './application-reads.ts'
import { planOf } from './plan.ts'
import { submit } from './submit.ts'

const security = [{ apiKey: [] }]
const tags = ['Applications']
const NOT_FOUND = failure('No such application among the tenant’s own')

export const applicationRoutes = router<TenantScope>()
applicationRoutes.use('/v1/applications/*', requireTenant, limitBody(APPLICATION_BODY_BYTES_MAX))

applicationRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/applications',
    tags,
    security,
    summary: 'Run a graph of models over the lines of an input, or go on with it',
    request: jsonBody(ApplicationStart),
    responses: {
      200: json(ApplicationObject, 'Its lines are being checked, or it goes on'),
      400: failure('The graph or the input is not valid; `param` names the node'),
      403: failure('The tenant stores as much as it may'),
      404: failure('No such model or file'),
      409: failure('The id is that of an application with other nodes or another input'),
      429: tooMany('The tenant has as many open applications as it may'),
    },
  }),
  async (c) => {
    const now_ms = Date.now()
    const submitted = await submit(c.env, c.var.identity, c.req.valid('json'), now_ms)
    if (submitted.status === 'refused') return refusal(submitted.response)
    return c.json(applicationJson(submitted.report, submitted.definition, now_ms), 200)
  },
)

applicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/applications',
    tags,
    security,
    summary: 'The tenant’s applications',
    request: { query: ApplicationsQuery },
    responses: { 200: json(ApplicationList, 'The newest first; counts of running ones may be some seconds old') },
  }),
  async (c) => {
    const { after, limit } = c.req.valid('query')
    const list = await applicationsList(c.env, c.var.identity.tenant, after ?? null, limit)
    return list === null ? refusal(apiError(400, unknownAfter(after ?? ''))) : c.json(list, 200)
  },
)

applicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/applications/{id}',
    tags,
    security,
    summary: 'An application, node by node',
    request: { params: ApplicationParams },
    responses: { 200: json(ApplicationObject, 'The application'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const found = await currentApplication(c.env, c.var.identity.tenant, id, 'describe')
    if (found === null) return refusal(notFound(id))
    return c.json(applicationJson(found.report, found.definition, Date.now()), 200)
  },
)

applicationRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/applications/{id}/cancel',
    tags,
    security,
    summary: 'Stop an application; what has finished is kept, and sent again it goes on',
    request: { params: ApplicationParams },
    responses: {
      200: json(ApplicationObject, 'It is cancelling'),
      404: NOT_FOUND,
      409: failure('The application has ended'),
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const found = await currentApplication(c.env, c.var.identity.tenant, id, 'cancel')
    if (found === null) return refusal(notFound(id))
    const { state } = found.report
    if (state.ended_at_ms !== null && state.status !== 'cancelled') {
      const message = `The application has ended: it is ${state.status}.`
      return refusal(apiError(409, { message, param: 'id', code: 'application_ended' }))
    }
    return c.json(applicationJson(found.report, found.definition, Date.now()), 200)
  },
)

applicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/applications/{id}/plan',
    tags,
    security,
    summary: 'In which order the nodes run, how much they ask for, and which engines serve them now',
    request: { params: ApplicationParams },
    responses: { 200: json(PlanObject, 'The plan; sizes are 0 until all lines are checked'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const found = await currentApplication(c.env, c.var.identity.tenant, id, 'describe')
    if (found === null) return refusal(notFound(id))
    return c.json(await planOf(c.env, c.var.identity, found.report, found.definition), 200)
  },
)

applicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/applications/{id}/nodes/{node}/output',
    tags,
    security,
    summary: 'What a node has answered so far, in the order of the input',
    request: { params: NodeParams },
    responses: {
      200: {
        description: 'A line of JSON for each request',
        content: { 'application/octet-stream': { schema: z.string().openapi({ format: 'binary' }) } },
      },
      404: failure('No such application or node, or its output was deleted'),
    },
  }),
  async (c) => {
    const { id, node } = c.req.valid('param')
    const { tenant } = c.var.identity
    const stored = await fromStore(() => applicationById(c.env.DB, tenant, id))
    if (stored === null) return refusal(notFound(id))
    const number = stored.definition.nodes.findIndex((one) => one.id === node)
    if (number === -1) {
      const ids = stored.definition.nodes.map((one) => one.id).join(', ')
      const message = `The application "${id}" has no node "${node}". Its nodes: ${ids}.`
      return refusal(apiError(404, { message, param: 'node', code: 'node_not_found' }))
    }
    const output = await outputOf(c.env, tenant, stored, number)
    const later = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
    const body = output && (await fileStream(c.env.BUCKET, tenant, output.parts, later, output.tail))
    if (body === null) {
      const message = `The output of node "${node}" is no longer stored.`
      return refusal(apiError(404, { message, param: 'node', code: 'output_not_found' }))
    }
    return refusal(contentResponse(body))
  },
)

applicationRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/applications/{id}/gantt.svg',
    tags,
    security,
    summary: 'When each node worked, and until when it is expected to',
    request: { params: ApplicationParams },
    responses: {
      200: { description: 'A chart', content: { 'image/svg+xml': { schema: z.string() } } },
      404: NOT_FOUND,
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const found = await currentApplication(c.env, c.var.identity.tenant, id, 'describe')
    if (found === null) return refusal(notFound(id))
    return refusal(ganttResponse(found))
  },
)

/** Of one that has completed, a file; else what its actor has. Null: nothing any more. */
async function outputOf(env: Env, tenant: string, { report }: StoredApplication, node: number) {
  const asFile = async (id: string) => {
    const file = await fromStore(() => fileById(env.DB, tenant, id, Date.now()))
    return file && { parts: file.parts, tail: null }
  }
  const { state } = report
  const file = state.nodes[node]?.output.file ?? ''
  if (state.status === 'completed') return asFile(file)
  // It may have completed since the row was read.
  return (await applicationActor(env, tenant, state.id).output(node)) ?? asFile(file)
}

function notFound(id: string): Response {
  return apiError(404, { message: `There is no application "${id}".`, param: 'id', code: 'application_not_found' })
}
