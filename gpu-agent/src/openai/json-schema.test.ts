import { describe, expect, test } from 'vitest'
import { schemaGrammar } from './json-schema.ts'
import {
  AMBIGUITY_MAX,
  ENUM_VALUES_MAX,
  REPETITION_MAX,
  REPETITIONS_MAX,
  SCHEMA_DEPTH_MAX,
  SCHEMA_NODES_MAX,
} from './schema-limits.ts'
import { grammarRegExp } from './testing/grammar-text.ts'

const string = { type: 'string' }

function param(schema: unknown): string | null {
  const result = schemaGrammar(schema, ['s'])
  if (result.ok) throw new Error('expected a refusal')
  expect(result.error).toMatchObject({ status: 400, error: { code: 'invalid_json_schema' } })
  return result.error.error.param
}
const taken = (schema: unknown) => schemaGrammar(schema, ['s']).ok
const object = (properties: object) => ({ type: 'object', properties })
const nested = (depth: number): object => (depth === 0 ? string : { type: 'array', items: nested(depth - 1) })
const values = (count: number) => ({ enum: Array.from({ length: count }, (_, index) => index) })

/** Schemas without free values or recursion, of which a grammar is a regular expression. */
function allows(schema: unknown, ...values: unknown[]): boolean[] {
  const result = schemaGrammar(schema, ['s'])
  if (!result.ok) throw new Error(result.error.error.message)
  const allowed = grammarRegExp(result.grammar)
  return values.map((value) => allowed.test(JSON.stringify(value)))
}

test.each(['toString', 'constructor', '__proto__', ['constructor']])(
  'the type %j, which every object has, is no JSON type',
  (type) => {
    expect(param({ type })).toMatch(/^s\..*type$/)
  },
)

describe('what a schema allows', () => {
  const integer = { type: 'integer' }

  test('bounds of numbers, with the words of all drafts', () => {
    expect(allows({ type: 'integer', minimum: 1, maximum: 10 }, 0, 1, 10, 11)).toEqual([false, true, true, false])
    expect(allows({ minimum: 0, exclusiveMaximum: 1, type: 'number' }, 0, 0.5, 1, -0.1)).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(allows({ type: 'integer', minimum: 5, exclusiveMinimum: true }, 5, 6)).toEqual([false, true])
    expect(allows({ type: 'number', minimum: 2, exclusiveMinimum: 1 }, 1.5, 2)).toEqual([false, true])
    expect(allows({ type: 'number', multipleOf: 1, maximum: 3 }, 2, 2.5)).toEqual([true, false])
    expect(allows({ minimum: 3 }, 3, 2)).toEqual([true, false])
    expect(allows({ type: ['integer', 'null'], minimum: 3 }, 3, null, 2)).toEqual([true, true, false])
  })

  test('patterns and formats of strings, with lengths that they keep anyway', () => {
    expect(allows({ type: 'string', pattern: '^[A-Z]{2}-\\d+$' }, 'AB-1', 'AB-', 'xAB-1')).toEqual([true, false, false])
    expect(allows({ type: 'string', format: 'date', maxLength: 32 }, '2024-01-01', 'today')).toEqual([true, false])
    expect(allows({ type: 'string', format: 'password', maxLength: 2 }, 'ab', 'abc')).toEqual([true, false])
    expect(allows({ type: 'integer', format: 'int32' }, 5)).toEqual([true])
  })

  test('allOf holds a text to all of them', () => {
    const named = { ...object({ name: { ...string, maxLength: 3 } }), required: ['name'] }
    const aged = { ...object({ age: integer }), required: ['age'] }
    const both = { allOf: [{ $ref: '#/$defs/named' }, aged], $defs: { named } }
    expect(allows(both, { name: 'ab', age: 3 }, { name: 'ab' }, { age: 3 })).toEqual([true, false, false])
    expect(
      allows({ allOf: [{ $ref: '#/$defs/named' }], description: 'd', $defs: { named } }, { name: 'a' }, {}),
    ).toEqual([true, false])
    expect(allows({ allOf: [{ minimum: 1 }, { type: 'integer', minimum: 5, maximum: 9 }] }, 4, 5, 10)).toEqual([
      false,
      true,
      false,
    ])
    expect(allows({ allOf: [{ enum: ['a', 'b'] }, { enum: ['b', 'c'] }] }, 'a', 'b', 'c')).toEqual([false, true, false])
    const twice = { allOf: [object({ a: { minimum: 1 } }), object({ a: { ...integer, maximum: 3 } })], required: ['a'] }
    expect(allows(twice, { a: 0 }, { a: 2 }, { a: 4 }, {})).toEqual([false, true, false, false])
  })

  test('keywords beside a reference or alternatives hold too', () => {
    const $defs = { count: integer }
    expect(allows({ $ref: '#/$defs/count', maximum: 3, minimum: 0, $defs }, 3, 4)).toEqual([true, false])
    expect(allows({ type: 'integer', anyOf: [{ maximum: 3 }, { minimum: 8 }] }, 3, 5, 8)).toEqual([true, false, true])
    expect(allows({ anyOf: [integer, { type: 'null' }], default: null, title: 'T' }, 3, null)).toEqual([true, true])
    expect(allows({ type: 'integer', nullable: true }, 3, null)).toEqual([true, true])
  })

  test('oneOf writes one branch, whose property tells it from the others', () => {
    const cat = object({ kind: { const: 'cat' }, lives: integer })
    const dog = object({ kind: { enum: ['dog', 'wolf'] } })
    const pets = { oneOf: [{ $ref: '#/$defs/cat' }, dog], discriminator: { propertyName: 'kind' }, $defs: { cat } }
    expect(allows(pets, { kind: 'cat', lives: 9 }, { kind: 'wolf' }, { lives: 9 }, {})).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(allows({ oneOf: [integer, { type: 'boolean' }] }, 1, true)).toEqual([true, true])
  })

  test('tuples, and lists that cannot repeat', () => {
    const pair = { type: 'array', prefixItems: [integer, { type: 'boolean' }], items: false }
    expect(allows(pair, [1, true], [1], [true, 1], [1, true, 1])).toEqual([true, false, false, false])
    expect(allows({ type: 'array', items: [integer] }, [1], [])).toEqual([true, false])
    expect(allows({ type: 'array', items: integer, uniqueItems: true, maxItems: 1 }, [], [1])).toEqual([true, true])
  })

  test('a required property that is not described has any value, and properties beyond are not written', () => {
    const open = { ...object({ a: integer }), additionalProperties: integer, required: ['a', 'b'] }
    expect(allows(open, { a: 1, b: 2 }, { a: 1 }, { a: 1, b: true })).toEqual([true, false, false])
  })
})

describe('JSON schemas', () => {
  test.each([
    ['s.pattern', { type: 'string', pattern: '(?=a)b' }],
    ['s.pattern', { type: 'string', pattern: 5 }],
    ['s.minLength', { type: 'string', pattern: '^a?$', minLength: 1 }],
    ['s.maxLength', { type: 'string', pattern: 'a', maxLength: 9 }],
    ['s.properties.a.format', object({ a: { type: 'string', format: 'iban' } })],
    ['s.format', { type: 'number', format: 'date' }],
    ['s.format', { type: 'string', format: 'date', pattern: 'a' }],
    ['s.items.minimum', { type: 'array', items: { type: 'number', minimum: '0' } }],
    ['s.minimum', { type: 'integer', minimum: 3, maximum: 2 }],
    ['s.exclusiveMaximum', { type: 'number', exclusiveMaximum: 1e300 }],
    ['s.multipleOf', { type: 'number', multipleOf: 0.5 }],
    ['s.uniqueItems', { type: 'array', items: string, uniqueItems: true }],
    ['s.prefixItems', { type: 'array', prefixItems: [string], minItems: 2 }],
    ['s.$defs.x.allOf', { $ref: '#/$defs/x', $defs: { x: { allOf: [string, { type: 'number' }] } } }],
    ['s.allOf', { allOf: [{ pattern: 'a' }, { pattern: 'b' }], type: 'string' }],
    ['s.allOf', { allOf: [{ ...object({ a: string }), additionalProperties: false }, object({ b: string })] }],
    ['s.allOf', { allOf: [{ $ref: '#' }, object({ b: string })] }],
    ['s.anyOf[1].oneOf', { anyOf: [string, { oneOf: [string, string] }] }],
    ['s.oneOf', { oneOf: [object({ a: string }), object({ b: string })] }],
    ['s.oneOf', { oneOf: [{ type: 'integer' }, { type: 'number' }] }],
    ['s.not', { not: string }],
    ['s.patternProperties', { type: 'object', patternProperties: {} }],
    ['s.type', { type: 'date' }],
    ['s.properties.a', object({ a: 5 })],
    ['s.required', { ...object({ a: string }), required: ['b'], additionalProperties: false }],
    ['s.$ref', { $ref: 'https://example.com/s.json' }],
    ['s.$ref', { $ref: '#/$defs/none' }],
    ['s.minLength', { type: 'array', items: string, minLength: 1 }],
    ['s.maxItems', { type: 'array', items: string, minItems: 3, maxItems: 2 }],
    ['s.enum', { enum: [] }],
  ])('%s is named', (path, schema) => {
    expect(param(schema)).toBe(path)
  })

  test('bounds, at and past', () => {
    expect(taken(nested(SCHEMA_DEPTH_MAX - 1))).toBe(true)
    expect(taken(nested(SCHEMA_DEPTH_MAX))).toBe(false)
    expect(taken(values(ENUM_VALUES_MAX))).toBe(true)
    expect(param(values(ENUM_VALUES_MAX + 1))).toBe('s.enum')
    expect(taken({ type: 'string', maxLength: REPETITION_MAX })).toBe(true)
    expect(param({ type: 'string', maxLength: REPETITION_MAX + 1 })).toBe('s.maxLength')
    const wide = (count: number) => ({
      ...object(Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, string]))),
      required: Array.from({ length: count }, (_, i) => `p${i}`),
    })
    expect(taken(wide(SCHEMA_NODES_MAX - 1))).toBe(true)
    expect(taken(wide(SCHEMA_NODES_MAX))).toBe(false)
    const strings = (count: number) => ({
      type: 'array',
      items: { anyOf: Array.from({ length: count }, () => ({ ...string, maxLength: REPETITION_MAX })) },
    })
    expect(taken(strings(REPETITIONS_MAX / REPETITION_MAX))).toBe(true)
    expect(param(strings(REPETITIONS_MAX / REPETITION_MAX + 1))).toBe(
      `s.items.anyOf[${REPETITIONS_MAX / REPETITION_MAX}]`,
    )
    expect(param({ ...string, description: 'x'.repeat(64 * 1024) })).toBe('s')
  })

  test('readings are counted: they add up over alternatives that begin alike', () => {
    const half = values(AMBIGUITY_MAX / 2)
    expect(taken({ anyOf: [half, half] })).toBe(true)
    expect(taken({ anyOf: [half, half, string] })).toBe(false)
    const alike = object({ a: { $ref: '#/$defs/n' } })
    expect(taken({ $ref: '#/$defs/n', $defs: { n: { anyOf: [alike, { type: 'null' }] } } })).toBe(false)
    const plain = { type: 'object', properties: alike.properties, required: ['a'] }
    expect(taken({ $ref: '#/$defs/n', $defs: { n: { anyOf: [plain, { type: 'null' }] } } })).toBe(true)
    expect(taken({ $ref: '#/$defs/n', $defs: { n: { anyOf: [plain, plain] } } })).toBe(false)
  })

  test("a client's text stays inside its literals", () => {
    const result = schemaGrammar({ const: 'a" ::= \\ \n | "b' }, ['s'])
    expect(result.ok && result.grammar).toContain(String.raw`"\"a\\\" ::= \\\\ \\n | \\\"b\""`)
  })
})
