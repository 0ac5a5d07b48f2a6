/** Operations of /openapi.json, and JSON values that a schema describes. */
import { z } from 'zod'
import type { Random } from '../../chaos/random.ts'

export type Schema = Readonly<Record<string, unknown>>

export interface Operation {
  /** `METHOD path`, as in the document. */
  name: string
  method: string
  path: string
  scheme: 'apiKey' | 'agentToken' | 'adminKey' | 'none'
  parameters: { name: string; in: string; schema: Schema }[]
  /** Null: none. */
  body: Schema | null
}

export interface ApiDocument {
  operations: Operation[]
  schemas: Readonly<Record<string, Schema>>
}

const AnySchema = z.record(z.string(), z.unknown())
const Described = z.object({
  security: z.array(z.record(z.string(), z.unknown())).optional(),
  parameters: z.array(z.object({ name: z.string(), in: z.string(), schema: AnySchema.default({}) })).default([]),
  requestBody: z.object({ content: z.record(z.string(), z.object({ schema: AnySchema.optional() })) }).optional(),
})
const Document = z.object({
  paths: z.record(z.string(), z.record(z.string(), Described)),
  components: z.object({ schemas: z.record(z.string(), AnySchema).default({}) }),
})
const Scheme = z.enum(['apiKey', 'agentToken', 'adminKey', 'none'])

export function readDocument(json: unknown): ApiDocument {
  const { paths, components } = Document.parse(json)
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([verb, { security, parameters, requestBody }]): Operation => {
      const method = verb.toUpperCase()
      const scheme = Scheme.parse(Object.keys(security?.[0] ?? {})[0] ?? 'none')
      const body = requestBody?.content['application/json']?.schema ?? null
      return { name: `${method} ${path}`, method, path, scheme, parameters, body }
    }),
  )
  return { operations, schemas: components.schemas }
}

const DEPTH_MAX = 5
const ITEMS_MAX = 3
const CHARS_MAX = 24

/** A value that `schema` describes, as far as plain JSON Schema tells. */
export function sample(schema: Schema, { schemas }: Pick<ApiDocument, 'schemas'>, random: Random, depth = 0): unknown {
  const within = (inner: unknown): unknown => sample(AnySchema.catch({}).parse(inner), { schemas }, random, depth + 1)
  const { $ref } = schema
  if (typeof $ref === 'string')
    return within(depth > DEPTH_MAX ? {} : schemas[$ref.replace('#/components/schemas/', '')])
  if (schema.const !== undefined) return schema.const
  if (Array.isArray(schema.enum)) return random.pick(schema.enum)
  for (const one of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(one) && one.length > 0) return within(random.pick(one))
  }
  if (Array.isArray(schema.allOf)) return Object.assign({}, ...schema.allOf.map(within))
  const type = Array.isArray(schema.type) ? random.pick(schema.type) : schema.type
  switch (type) {
    case 'null':
      return null
    case 'boolean':
      return random.chance(0.5)
    case 'integer':
    case 'number':
      return sampleNumber(schema, type, random)
    case 'array':
      if (depth > DEPTH_MAX) return []
      return Array.from({ length: random.between(Number(schema.minItems ?? 0), ITEMS_MAX) }, () => within(schema.items))
    case 'object':
      return sampleObject(schema, within, random, depth)
    default:
      return 'x'.repeat(random.between(Number(schema.minLength ?? 0), CHARS_MAX))
  }
}

function sampleNumber(schema: Schema, type: 'integer' | 'number', random: Random): number {
  const least = Number(schema.minimum ?? schema.exclusiveMinimum ?? 0)
  const most = Math.min(Number(schema.maximum ?? schema.exclusiveMaximum ?? least + 100), least + 1000)
  return type === 'integer'
    ? random.between(Math.ceil(least), Math.floor(most))
    : least + random.next() * (most - least)
}

function sampleObject(schema: Schema, within: (inner: unknown) => unknown, random: Random, depth: number): unknown {
  const properties = AnySchema.catch({}).parse(schema.properties)
  const required = z.array(z.string()).catch([]).parse(schema.required)
  const chosen = Object.entries(properties).filter(
    ([name]) => required.includes(name) || (depth <= DEPTH_MAX && random.chance(0.3)),
  )
  return Object.fromEntries(chosen.map(([name, inner]) => [name, within(inner)]))
}
