/**
 * A JSON schema → the GBNF of the JSON texts that it allows. Every schema that is taken is enforced exactly; a keyword that
 * a grammar cannot express is refused by its path, never ignored. Properties come in the schema's order, and properties
 * that the schema does not name are never written, which satisfies a schema that allows them and one that does not.
 *
 * llama.cpp follows all readings of a text side by side, so a schema whose readings multiply with the depth of the text
 * would stall the engine for everyone. Readings are counted while the grammar is written and bounded; inside a recursion,
 * where they could grow without bound, there may be one only.
 */
import type { StreamError } from '../../../src/protocol/index.ts'
import { pathOf } from './body-error.ts'
import { badRequest } from './errors.ts'
import { Gbnf, literal } from './gbnf.ts'
import { distinctBranches } from './schema-branches.ts'
import { SchemaError } from './schema-error.ts'
import { constraints, impliedType, isAnnotation, isEmpty, KEYWORDS, only, repetition } from './schema-keywords.ts'
import { numberPart, type Part, stringPart } from './schema-leaves.ts'
import {
  AMBIGUITY_MAX,
  ENUM_VALUES_MAX,
  REPETITIONS_MAX,
  SCHEMA_BYTES_MAX,
  SCHEMA_DEPTH_MAX,
  SCHEMA_NODES_MAX,
} from './schema-limits.ts'
import { merged } from './schema-merge.ts'
import { isObject, isOfType, type Json, type Path, resolve, typeOf } from './schema-shape.ts'

export type GrammarResult = { ok: true; grammar: string } | { ok: false; error: StreamError }

/** The grammar of one JSON text, `before` and `after` it; `path` leads to the schema in the body. */
export function schemaGrammar(schema: unknown, path: Path, before = '', after = ''): GrammarResult {
  return grammarOf([{ schema, path, before }], after)
}

export interface SchemaBranch {
  schema: unknown
  path: Path
  before: string
}

/** The grammar of one of several texts, each begun by its own `before`. */
export function grammarOf(branches: readonly SchemaBranch[], after: string): GrammarResult {
  const gbnf = new Gbnf()
  try {
    const bodies = branches.map(({ schema, path, before }) => {
      const bytes = Buffer.byteLength(JSON.stringify(schema) ?? '')
      if (bytes > SCHEMA_BYTES_MAX) throw new SchemaError(path, `a schema has at most ${SCHEMA_BYTES_MAX} bytes`)
      return `${literal(before)} ${new SchemaWriter(gbnf, schema, path).root()} ${literal(after)}`
    })
    return { ok: true, grammar: gbnf.text(bodies.join(' | ')) }
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    const param = pathOf(error.path)
    return {
      ok: false,
      error: badRequest('invalid_json_schema', `Invalid schema for '${param}': ${error.message}.`, param),
    }
  }
}

class SchemaWriter {
  readonly #gbnf: Gbnf
  readonly #schema: unknown
  readonly #path: Path
  /** Definitions that were met; `readings` is null while one is being written. */
  readonly #definitions = new Map<string, { rule: string; readings: number | null; recursive: boolean }>()
  #nodes = 0
  #repetitions = 0

  constructor(gbnf: Gbnf, schema: unknown, path: Path) {
    this.#gbnf = gbnf
    this.#schema = schema
    this.#path = path
  }

  root(): string {
    return this.#definition('#', this.#path, 0).body
  }

  /** `depth`: of schemas around this one, references followed. */
  #part(schema: unknown, path: Path, depth: number): Part {
    this.#nodes += 1
    if (this.#nodes > SCHEMA_NODES_MAX) throw new SchemaError(path, `a schema has at most ${SCHEMA_NODES_MAX} parts`)
    if (depth > SCHEMA_DEPTH_MAX) throw new SchemaError(path, `a schema is at most ${SCHEMA_DEPTH_MAX} deep`)
    if (schema === true) return { body: 'value', readings: 1 }
    if (!isObject(schema)) throw new SchemaError(path, 'a schema is an object')
    if (schema.nullable === true) return this.#nullable(schema, path, depth)
    if ('allOf' in schema) return this.#merged([schema], 'allOf', path, depth)
    for (const keyword of ['$ref', 'anyOf', 'oneOf'] as const) {
      if (!(keyword in schema)) continue
      const { [keyword]: own, ...beside } = schema
      if (isEmpty(beside)) return this.#combined(keyword, own, path, depth)
      return this.#merged([{ [keyword]: own }, constraints(beside)], keyword, path, depth)
    }
    if ('const' in schema) return this.#values(schema, 'const', [schema.const], path)
    if ('enum' in schema) return this.#values(schema, 'enum', schema.enum, path)
    return this.#typed(schema, path, depth)
  }

  /** OpenAPI's word for a type that is null as well. */
  #nullable({ nullable, ...schema }: Json, path: Path, depth: number): Part {
    return this.#anyOf([schema, { type: 'null' }], 'nullable', path, depth)
  }

  #merged(schemas: readonly unknown[], keyword: string, path: Path, depth: number): Part {
    const result = merged(schemas, this.#schema)
    if (result.ok) return this.#part(result.schema, keyword === 'allOf' ? [...path, keyword] : path, depth + 1)
    throw new SchemaError([...path, keyword], `${result.keyword}: ${result.reason}`)
  }

  #combined(keyword: '$ref' | 'anyOf' | 'oneOf', own: unknown, path: Path, depth: number): Part {
    const own_path = [...path, keyword]
    if (keyword === '$ref') {
      if (typeof own !== 'string') throw new SchemaError(own_path, 'a reference is a string')
      return this.#definition(own, own_path, depth)
    }
    if (!Array.isArray(own) || own.length === 0) throw new SchemaError(own_path, 'a list is expected')
    const branches = keyword === 'anyOf' || own.length === 1 ? own : distinctBranches(own, this.#schema)
    if (branches !== null) return this.#anyOf(branches, keyword, path, depth)
    throw new SchemaError(own_path, 'its schemas must differ by type, or by the value of a property that all have')
  }

  #definition(reference: string, path: Path, depth: number): Part {
    const known = this.#definitions.get(reference)
    if (known !== undefined) {
      known.recursive ||= known.readings === null
      return { body: known.rule, readings: known.readings ?? 1 }
    }
    const entry = { rule: this.#gbnf.reserve(), readings: null as number | null, recursive: false }
    this.#definitions.set(reference, entry)
    const target = resolve(this.#schema, reference)
    if (target === undefined) throw new SchemaError(path, `there is no definition at ${reference}`)
    const part = this.#part(target.schema, [...this.#path, ...target.path], depth + 1)
    this.#gbnf.define(entry.rule, part.body)
    entry.readings = part.readings
    if (entry.recursive && part.readings > 1) {
      throw new SchemaError(path, 'a schema that refers to itself must leave one way only to read a text')
    }
    return { body: entry.rule, readings: part.readings }
  }

  #anyOf(branches: readonly unknown[], keyword: string, path: Path, depth: number): Part {
    const parts = branches.map((one, index) => this.#part(one, [...path, keyword, index], depth + 1))
    // Alternatives of different JSON types differ in their first character.
    const types = branches.map((one) => typeOf(one, this.#schema))
    const distinct = !types.includes(null) && new Set(types).size === types.length
    const readings = parts.reduce((all, one) => (distinct ? Math.max(all, one.readings) : all + one.readings), 0)
    return this.#bounded({ body: this.#gbnf.rule(parts.map(({ body }) => body).join(' | ')), readings }, path)
  }

  #values(schema: Json, keyword: string, values: unknown, path: Path): Part {
    // A type beside the values says nothing that they do not.
    only(schema, [keyword, 'type'], path)
    if (!Array.isArray(values) || values.length === 0) throw new SchemaError([...path, keyword], 'a list is expected')
    if (values.length > ENUM_VALUES_MAX) {
      throw new SchemaError([...path, keyword], `at most ${ENUM_VALUES_MAX} values are possible`)
    }
    const { type } = schema
    const fitting = type === undefined ? values : values.filter((value) => isOfType(value, type))
    if (fitting.length === 0) throw new SchemaError([...path, keyword], 'no value is of the given type')
    const body = this.#gbnf.rule(fitting.map((value) => literal(JSON.stringify(value))).join(' | '))
    return { body, readings: fitting.length }
  }

  #typed(schema: Json, path: Path, depth: number): Part {
    const { type } = schema
    if (Array.isArray(type)) {
      const annotated = Object.entries(schema).filter(([keyword]) => !isAnnotation(keyword) && keyword !== 'type')
      const anyOf = type.map((one) => {
        const own = KEYWORDS.get(String(one)) ?? []
        return { type: one, ...Object.fromEntries(annotated.filter(([keyword]) => own.includes(keyword))) }
      })
      only(schema, ['type', ...type.flatMap((one) => KEYWORDS.get(String(one)) ?? [])], path)
      return this.#anyOf(anyOf, 'anyOf', path, depth)
    }
    if (type === undefined && isEmpty(schema)) {
      return { body: 'value', readings: 1 }
    }
    const kind = type ?? impliedType(schema)
    const keywords = typeof kind === 'string' ? KEYWORDS.get(kind) : undefined
    if (keywords === undefined) {
      if (kind === undefined) only(schema, [], path)
      throw new SchemaError([...path, 'type'], 'it is no JSON type')
    }
    only(schema, ['type', ...keywords], path)
    if (kind === 'object') return this.#object(schema, path, depth)
    if (kind === 'array') return this.#array(schema, path, depth)
    if (kind === 'string')
      return this.#bounded(
        stringPart(this.#gbnf, schema, path, (times) => this.#repeat(times, path)),
        path,
      )
    if (kind === 'number' || kind === 'integer') return numberPart(this.#gbnf, schema, kind, path)
    return { body: kind === 'boolean' ? '("true" | "false")' : '"null"', readings: 1 }
  }

  #array(schema: Json, path: Path, depth: number): Part {
    const { minItems, maxItems, prefixItems, uniqueItems } = schema
    if (uniqueItems === true && maxItems !== 0 && maxItems !== 1) {
      throw new SchemaError([...path, 'uniqueItems'], 'a grammar cannot keep items from repeating')
    }
    if (prefixItems !== undefined) return this.#tuple(prefixItems, schema, [...path, 'prefixItems'], depth)
    if (Array.isArray(schema.items)) return this.#tuple(schema.items, schema, [...path, 'items'], depth)
    const items = this.#part(schema.items ?? true, [...path, 'items'], depth + 1)
    this.#repeat(maxItems ?? minItems, path)
    const more = repetition(schema, 'minItems', 'maxItems', path, 1)
    const filled = maxItems === 0 ? '' : `${items.body} ("," space ${items.body})${more}`
    const body = `"[" ${(minItems ?? 0) === 0 && filled !== '' ? `(${filled})?` : filled} "]"`
    return { body: this.#gbnf.rule(body), readings: items.readings }
  }

  /** Each item has a schema of its own; items beyond those are never written. */
  #tuple(schemas: unknown, { minItems = 0, maxItems }: Json, path: Path, depth: number): Part {
    if (!Array.isArray(schemas) || schemas.length === 0) throw new SchemaError(path, 'a list is expected')
    const count = schemas.length
    const fits = Number(minItems) <= count && (maxItems === undefined || Number(maxItems) >= count)
    if (!fits) throw new SchemaError(path, `it has ${count} items, which minItems or maxItems excludes`)
    const parts = schemas.map((one, index) => this.#part(one, [...path, index], depth + 1))
    const body = `"[" ${parts.map((part) => part.body).join(' "," space ')} "]"`
    return { body: this.#gbnf.rule(body), readings: Math.max(...parts.map((part) => part.readings)) }
  }

  #object(schema: Json, path: Path, depth: number): Part {
    const { required = [], additionalProperties } = schema
    const { properties: named = {} } = schema
    if (!isObject(named)) throw new SchemaError([...path, 'properties'], 'an object is expected')
    if (!Array.isArray(required)) throw new SchemaError([...path, 'required'], 'a list is expected')
    const properties = { ...named }
    for (const name of required) {
      if (typeof name === 'string' && Object.hasOwn(named, name)) continue
      if (typeof name !== 'string' || additionalProperties === false) {
        throw new SchemaError([...path, 'required'], `there is no property '${name}'`)
      }
      properties[name] = additionalProperties ?? true
    }
    const names = Object.keys(properties)
    if (isObject(additionalProperties) && names.length === 0) {
      const value = this.#part(additionalProperties, [...path, 'additionalProperties'], depth + 1)
      const pair = this.#gbnf.rule(`string ":" space ${value.body}`)
      return { body: this.#gbnf.rule(`"{" (${pair} ("," space ${pair})*)? "}"`), readings: value.readings }
    }
    if (names.length === 0) return { body: additionalProperties === false ? '"{}"' : 'object', readings: 1 }
    const parts = names.map((name) => this.#part(properties[name], [...path, 'properties', name], depth + 1))
    const pairs = names.map((name, index) => `${literal(JSON.stringify(name))} ":" space ${parts[index]?.body}`)
    const optional = names.map((name) => !required.includes(name))
    const alternatives = optional.filter(Boolean).length + 1
    const readings = Math.max(alternatives, ...parts.map((part) => part.readings))
    return this.#bounded({ body: this.#gbnf.rule(`"{" ${this.#members(pairs, optional)} "}"`), readings }, path)
  }

  /** `rest`: what may follow once a property stands; `begin`: what may begin at one. Written from the last to the first. */
  #members(pairs: readonly string[], optional: readonly boolean[]): string {
    let rest = '""'
    let begin = '""'
    for (let index = pairs.length - 1; index >= 0; index--) {
      const pair = this.#gbnf.rule(pairs[index] ?? '')
      begin = optional[index] ? this.#gbnf.rule(`${pair} ${rest} | ${begin}`) : `${pair} ${rest}`
      rest = this.#gbnf.rule(optional[index] ? `("," space ${pair})? ${rest}` : `"," space ${pair} ${rest}`)
    }
    return begin
  }

  #repeat(times: unknown, path: Path): void {
    this.#repetitions += typeof times === 'number' ? times : 0
    if (this.#repetitions <= REPETITIONS_MAX) return
    throw new SchemaError(path, `lengths in a schema add up to at most ${REPETITIONS_MAX}`)
  }

  #bounded(part: Part, path: Path): Part {
    if (part.readings > AMBIGUITY_MAX) {
      throw new SchemaError(path, `a text has at most ${AMBIGUITY_MAX} ways to be read`)
    }
    return part
  }
}
