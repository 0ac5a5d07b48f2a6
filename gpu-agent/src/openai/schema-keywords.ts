/** The keywords of JSON schema that a grammar can hold a text to, by type, and those that say nothing about a text. */
import { SchemaError } from './schema-error.ts'
import { REPETITION_MAX } from './schema-limits.ts'
import type { Json, Path } from './schema-shape.ts'

const ANNOTATIONS = new Set([
  ...['title', 'description', 'default', 'example', 'examples', '$schema', '$id', '$anchor', '$comment', '$defs'],
  ...['definitions', 'readOnly', 'writeOnly', 'deprecated', 'discriminator', 'contentMediaType', 'contentEncoding'],
])

export const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'format']
/** By the schema's type. */
export const KEYWORDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['object', ['properties', 'required', 'additionalProperties']],
  ['array', ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems']],
  ['string', ['minLength', 'maxLength', 'pattern', 'format']],
  ['number', BOUNDS],
  ['integer', BOUNDS],
  ['boolean', []],
  ['null', []],
])

export function isAnnotation(keyword: string): boolean {
  return ANNOTATIONS.has(keyword) || keyword.startsWith('x-') || keyword === 'nullable'
}

/** Whether a schema says nothing but annotations. */
export function isEmpty(schema: Json): boolean {
  return Object.keys(schema).every(isAnnotation)
}

export function constraints(schema: Json): Json {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => !isAnnotation(keyword)))
}

/** The type that a schema without one is of, as its keywords concern one type only; undefined: none, or several. */
export function impliedType(schema: Json): string | undefined {
  const types = Array.from(KEYWORDS).filter(([type, own]) => type !== 'integer' && own.some((one) => one in schema))
  const [only, ...others] = types
  return others.length === 0 ? only?.[0] : undefined
}

export function only(schema: Json, keywords: readonly string[], path: Path): void {
  const other = Object.keys(schema).find((keyword) => !keywords.includes(keyword) && !isAnnotation(keyword))
  if (other !== undefined) throw new SchemaError([...path, other], 'this keyword is not supported here')
}

/** `{min,max}` of a repetition; `less` counts occurrences that stand outside of it. */
export function repetition(schema: Json, min: string, max: string, path: Path, less = 0): string {
  const [low, high] = [min, max].map((keyword) => {
    const value = schema[keyword]
    if (value === undefined) return undefined
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= REPETITION_MAX) return value
    throw new SchemaError([...path, keyword], `an integer between 0 and ${REPETITION_MAX} is expected`)
  })
  if (high !== undefined && high < (low ?? 0)) throw new SchemaError([...path, max], `it is less than ${min}`)
  return `{${Math.max(0, (low ?? 0) - less)},${high === undefined ? '' : Math.max(0, high - less)}}`
}
