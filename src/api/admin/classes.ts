/** /admin/v1/classes: what is known about classes of programs, and how `learned` orders by it. Up to a minute old. */
import { createRoute, z } from '@hono/zod-openapi'
import { ClassSketch } from '../../core/classes/class-sketch.ts'
import { indexOf, indexTable } from '../../core/classes/index-table.ts'
import type { LogSketch } from '../../core/classes/log-sketch.ts'
import type { ToolBook } from '../../core/tools/tool-book.ts'
import type { ToolSketch } from '../../core/tools/tool-sketch.ts'
import { Id } from '../../protocol/index.ts'
import { Objective } from '../../protocol/objective.ts'
import { classesPage, type KnownClass, knownClass } from '../../store/classes.ts'
import { fromStore } from '../../store/database.ts'
import { tenantById } from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { ClassWeight, listOf, PageQuery, WeightChange } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, pageOf, pageStart } from '../route-parts.ts'
import { weighTenantClass } from '../weigh.ts'
import { absent, iso, SECURITY as security } from './answers.ts'
import { ClassIndexJson, ClassJson, type ClassToolJson, type Quantiles } from './class-schemas.ts'

export const classRoutes = router<AdminScope>()

const ClassParams = z.object({
  tenant: Id.openapi({ param: { name: 'tenant', in: 'path' } }),
  class: Id.openapi({ param: { name: 'class', in: 'path' } }),
})
/** The curve goes on to so many times the largest output that was seen. */
const CURVE_BEYOND = 4
const US_PER_S = 1e6

classRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/classes',
    security,
    request: { query: PageQuery.extend({ tenant: Id }) },
    responses: {
      200: json(listOf(ClassJson), 'Classes of a tenant, by name'),
      400: failure('Invalid'),
      404: failure('No such tenant'),
    },
  }),
  async (c) => {
    const { tenant, limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null)
      return refusal(absent('tenant', tenant, 'tenant'))
    const rows = await fromStore(() => classesPage(c.env.DB, tenant, start.position?.[0] ?? null, limit + 1))
    return c.json(
      pageOf(
        rows,
        limit,
        (row) => classJson(row, ClassSketch.from(row.sketch)),
        (row) => [row.class],
      ),
      200,
    )
  },
)

classRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/classes/{tenant}/{class}',
    security,
    request: {
      params: ClassParams,
      query: z.object({ objective: Objective.default('token_latency') }),
    },
    responses: {
      200: json(ClassIndexJson, 'What is known, and the index by output tokens'),
      400: failure('Invalid'),
      404: failure('Nothing is known of such a class'),
    },
  }),
  async (c) => {
    const { tenant, class: name } = c.req.valid('param')
    const { objective } = c.req.valid('query')
    const row = await fromStore(() => knownClass(c.env.DB, tenant, name))
    if (row === null) return refusal(absent('class', name, 'class'))
    const sketch = ClassSketch.from(row.sketch)
    const tools = toolsJson(sketch.tools)
    return c.json({ ...classJson(row, sketch), tools, objective, index: indexCurve(sketch, objective) }, 200)
  },
)

classRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/admin/v1/classes/{tenant}/{class}',
    security,
    request: { params: ClassParams, ...jsonBody(WeightChange) },
    responses: {
      200: json(ClassWeight, 'As changed; calls see it within 10 s'),
      404: failure('No such tenant'),
      409: failure('Too many classes of the tenant weigh other than 1'),
    },
  }),
  async (c) => {
    const weighed = { ...c.req.valid('param'), ...c.req.valid('json') }
    const { tenant } = weighed
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null)
      return refusal(absent('tenant', tenant, 'tenant'))
    const done = await weighTenantClass(c.env, c.var.auditor, weighed)
    return done.status === 'full' ? refusal(done.response) : c.json({ object: 'class' as const, ...weighed }, 200)
  },
)

function classJson(
  { tenant, class: name, ends, updated_at_ms }: KnownClass,
  sketch: ClassSketch,
): z.infer<typeof ClassJson> {
  return {
    ...{ tenant, class: name, ends, updated_at: iso(updated_at_ms) },
    output_tokens: quantiles(sketch.output_tokens),
    calls: quantiles(sketch.calls),
    path_s: quantiles(sketch.path_us, US_PER_S),
    service_s: quantiles(sketch.service_us, US_PER_S),
    tool_s: quantiles(sketch.tool_us, US_PER_S),
    prompt_tokens_per_output_token: sketch.prompt_tokens_per_output_token,
  }
}

type ClassTool = z.infer<typeof ClassToolJson>

/** The most used first. */
function toolsJson(book: ToolBook): ClassTool[] {
  const named = book.names().map((name) => toolJson(name, 'named', book.tool(name)))
  const rest = [toolJson(null, 'unnamed', book.unnamed), toolJson(null, 'other', book.other)]
  return [...named, ...rest].flat().sort((a, b) => b.uses - a.uses)
}

function toolJson(name: string | null, kind: ClassTool['kind'], sketch: ToolSketch | null): ClassTool[] {
  if (sketch === null || sketch.uses === 0) return []
  const { uses, duration_us, answer_tokens } = sketch
  return [{ name, kind, uses, duration_s: quantiles(duration_us, US_PER_S), answer_tokens: quantiles(answer_tokens) }]
}

function quantiles(sketch: LogSketch, unit = 1): Quantiles {
  const at = (share: number): number | null => {
    const value = sketch.quantile(share)
    return value === null ? null : value / unit
  }
  return { p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

/** Of a program whose context is at hand. */
function indexCurve(sketch: ClassSketch, objective: Objective): z.infer<typeof ClassIndexJson>['index'] {
  const { steps } = indexTable(sketch, objective)
  const most = CURVE_BEYOND * (sketch.output_tokens.quantile(1) ?? 0)
  return steps
    .filter(({ from_tokens }) => from_tokens <= most)
    .map((step) => ({
      output_tokens: step.from_tokens,
      index: indexOf(step, 0),
      expected_remaining_tokens: step.remaining_tokens,
    }))
}
