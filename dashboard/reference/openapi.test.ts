import { expect, test } from 'vitest'
import { contentOf, Document, fieldsOf, operationsOf, typeText, whoMay } from './openapi.ts'

const DOCUMENT = Document.parse({
  openapi: '3.1.0',
  paths: {
    '/v1/programs/{id}': {
      get: {
        security: [{ apiKey: [] }, { adminKey: [] }],
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string', maxLength: 128 } }],
        responses: {
          200: {
            description: 'Its entry',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Program' } } },
          },
        },
      },
    },
    '/v1/programs': { get: { responses: { 200: { description: 'All' } } } },
    '/admin/v1/keys/{id}': { delete: { responses: { 200: { description: 'Gone' } } } },
  },
  components: {
    schemas: {
      Program: {
        type: 'object',
        required: ['id', 'calls'],
        properties: {
          id: { type: 'string', description: 'As the client chose it' },
          state: { type: 'string', enum: ['running', 'ended'], default: 'running' },
          ended_at: { type: ['string', 'null'], format: 'date-time' },
          calls: {
            type: 'array',
            maxItems: 100,
            items: { type: 'object', properties: { service_s: { type: 'number', minimum: 0 } } },
          },
          parent: { anyOf: [{ $ref: '#/components/schemas/Program' }, { type: 'null' }] },
          metadata: { type: 'object', additionalProperties: { type: 'string' } },
        },
      },
    },
  },
})

test('operations stand in groups, and say whose key opens them', () => {
  const operations = operationsOf(DOCUMENT)
  expect(operations.map(({ name, group }) => [name, group])).toEqual([
    ['DELETE /admin/v1/keys/{id}', '/admin/v1/keys'],
    ['GET /v1/programs', '/v1/programs'],
    ['GET /v1/programs/{id}', '/v1/programs'],
  ])
  expect(operations.map(whoMay)).toEqual(['anybody', 'anybody', 'a tenant’s key or the operator’s key'])
  const content = contentOf(operations[2]?.responses['200']?.content)
  expect([content?.type, typeText(content?.schema ?? {})]).toEqual(['application/json', 'Program'])
})

test('a schema’s fields come with their types, bounds and defaults, and a schema within itself by its name', () => {
  const fields = fieldsOf(DOCUMENT.components.schemas.Program ?? {})
  expect(fields.map(({ name, type, isRequired, about }) => [name, type, isRequired, about])).toEqual([
    ['id', 'string', true, 'As the client chose it'],
    ['state', '"running" | "ended"', false, 'default "running"'],
    ['ended_at', 'string (date-time) | null', false, ''],
    ['calls', 'object[]', true, 'items at most 100'],
    ['calls[].service_s', 'number', false, 'at least 0'],
    ['parent', 'Program | null', false, ''],
    ['metadata', 'map of string', false, ''],
  ])
  expect(fields.find(({ name }) => name === 'parent')?.names).toEqual(['Program'])
})
