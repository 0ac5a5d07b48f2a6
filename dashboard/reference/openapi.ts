/** /openapi.json as reference pages show it: operations in groups, and a schema's fields one below the other. Pure. */
import * as z from 'zod'

/** Deeper fields are left to the page of their schema. */
const DEPTH_MAX = 5
const FIELDS_MAX = 300

/** Any JSON Schema (2020-12) that our routes give. */
const Schema = z.looseObject({
  $ref: z.string().optional(),
  type: z.union([z.string(), z.array(z.string())]).optional(),
  description: z.string().optional(),
  enum: z.array(z.unknown()).optional(),
  const: z.unknown().optional(),
  format: z.string().optional(),
  default: z.unknown().optional(),
  required: z.array(z.string()).optional(),
  get properties() {
    return z.record(z.string(), Schema).optional()
  },
  get items() {
    return Schema.optional()
  },
  get additionalProperties() {
    return z.union([z.boolean(), Schema]).optional()
  },
  get anyOf() {
    return z.array(Schema).optional()
  },
  get oneOf() {
    return z.array(Schema).optional()
  },
  get allOf() {
    return z.array(Schema).optional()
  },
})
export type Schema = z.infer<typeof Schema>

const Content = z.record(z.string(), z.object({ schema: Schema.optional() }))

const OperationJson = z.object({
  summary: z.string().optional(),
  description: z.string().optional(),
  security: z.array(z.record(z.string(), z.array(z.string()))).optional(),
  parameters: z
    .array(
      z.object({
        name: z.string(),
        in: z.string(),
        required: z.boolean().optional(),
        description: z.string().optional(),
        schema: Schema.optional(),
      }),
    )
    .optional(),
  requestBody: z.object({ content: Content }).optional(),
  responses: z.record(z.string(), z.object({ description: z.string(), content: Content.optional() })),
})

export const Document = z.object({
  paths: z.record(z.string(), z.record(z.string(), OperationJson)),
  components: z.object({ schemas: z.record(z.string(), Schema).default({}) }),
})
export type Document = z.infer<typeof Document>

export interface Operation extends z.infer<typeof OperationJson> {
  /** `GET /v1/programs`: how it is called, and its page. */
  name: string
  method: string
  path: string
  /** First words of the path, by which operations stand together. */
  group: string
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const KEYS: Readonly<Record<string, string>> = {
  apiKey: 'a tenant’s key',
  adminKey: 'the operator’s key',
  agentToken: 'an agent’s token',
}

export function operationsOf({ paths }: Document): Operation[] {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method]
      if (operation === undefined) return []
      const name = `${method.toUpperCase()} ${path}`
      return [{ ...operation, name, method: method.toUpperCase(), path, group: groupOf(path) }]
    }),
  )
  const by = (text: (one: Operation) => string) => (a: Operation, b: Operation) =>
    text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0
  return operations.sort((a, b) => by((one) => one.group)(a, b) || by((one) => one.path)(a, b))
}

/** `/v1/programs/{id}` stands under `/v1/programs`, and `/admin/v1/keys/{id}` under `/admin/v1/keys`. */
function groupOf(path: string): string {
  const words = path.split('/').filter((word) => word !== '' && !word.startsWith('{'))
  return `/${words.slice(0, words[1] === 'v1' ? 3 : 2).join('/')}`
}

export function whoMay({ security = [] }: Operation): string {
  const keys = security.flatMap((one) => Object.keys(one)).map((name) => KEYS[name] ?? name)
  return keys.length === 0 ? 'anybody' : keys.join(' or ')
}

/** What the operation or an answer carries: its first content. */
export function contentOf(content: z.infer<typeof Content> | undefined): { type: string; schema: Schema } | null {
  const [first] = Object.entries(content ?? {})
  return first === undefined ? null : { type: first[0], schema: first[1].schema ?? {} }
}

export const refName = (schema: Schema): string | null => schema.$ref?.replace('#/components/schemas/', '') ?? null

/** The schema in words. A schema that has a name is called by it. */
export function typeText(schema: Schema): string {
  const name = refName(schema)
  if (name !== null) return name
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
  const several = schema.anyOf ?? schema.oneOf ?? schema.allOf
  if (several !== undefined) return [...new Set(several.map(typeText))].join(schema.allOf === undefined ? ' | ' : ' & ')
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type ?? 'any']).map((type) => {
    if (type === 'array') return `${typeText(schema.items ?? {})}[]`
    if (type !== 'object' || schema.properties !== undefined)
      return schema.format === undefined || type === 'null' ? type : `${type} (${schema.format})`
    const values = schema.additionalProperties
    return typeof values === 'object' ? `map of ${typeText(values)}` : 'object'
  })
  return [...new Set(types)].join(' | ')
}

/** Names of the schemas that stand in it by name. */
export function namesIn(schema: Schema): string[] {
  const own = refName(schema)
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? []), ...listed(schema.items)]
  const values = schema.additionalProperties
  return [...new Set([...listed(own), ...[...inner, ...(typeof values === 'object' ? [values] : [])].flatMap(namesIn)])]
}

const listed = <T>(one: T | null | undefined): T[] => (one === null || one === undefined ? [] : [one])

export interface Field {
  /** With the names of the objects that it is in: `leases[].engine`. */
  name: string
  type: string
  names: string[]
  isRequired: boolean
  about: string
}

/** The fields of an object, of the object that an array holds, or of the objects of which it is one. */
export function fieldsOf(schema: Schema): Field[] {
  const fields: Field[] = []
  walk(schema, '', 0, fields)
  return fields.slice(0, FIELDS_MAX)
}

function walk(schema: Schema, prefix: string, depth: number, fields: Field[]): void {
  if (depth > DEPTH_MAX || refName(schema) !== null) return
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const isRequired = schema.required?.includes(name) === true
    const path = `${prefix}${name}`
    fields.push({ name: path, type: typeText(field), names: namesIn(field), isRequired, about: aboutOf(field) })
    walk(field, `${path}.`, depth + 1, fields)
  }
  if (schema.items !== undefined)
    walk(schema.items, prefix === '' ? '[].' : `${prefix.slice(0, -1)}[].`, depth + 1, fields)
  for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]) {
    walk(one, prefix, depth + 1, fields)
  }
}

const BOUNDS: Readonly<Record<string, string>> = {
  minimum: 'at least',
  exclusiveMinimum: 'more than',
  maximum: 'at most',
  exclusiveMaximum: 'less than',
  minLength: 'characters at least',
  maxLength: 'characters at most',
  minItems: 'items at least',
  maxItems: 'items at most',
}

function aboutOf(schema: Schema): string {
  const said = schema.description === undefined ? [] : [schema.description]
  const bounds = Object.entries(BOUNDS).flatMap(([name, words]) => {
    const bound = schema[name]
    // The largest safe integer is no bound that anybody meets.
    return typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER ? [`${words} ${bound}`] : []
  })
  if (schema.default !== undefined) bounds.push(`default ${JSON.stringify(schema.default)}`)
  return [...said, bounds.join(', ')].filter((text) => text !== '').join('. ')
}
