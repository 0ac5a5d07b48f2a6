/** Headers that a call of any API may have, as /openapi.json shows them. */
import { z } from '@hono/zod-openapi'
import { HOMES } from '../relay/program-home.ts'

export const CallHeaders = z.object({
  'X-Program-Id': z.string().optional().openapi({ description: 'The program that this call belongs to' }),
  'X-Thread-Id': z.string().optional().openapi({ description: 'Its thread; inferred if absent' }),
  'X-Parent-Calls': z
    .string()
    .optional()
    .openapi({ description: 'Ids of calls that it depends on, separated by commas' }),
  'Idempotency-Key': z.string().optional().openapi({ description: 'Retries under it are one call' }),
  'X-Prompt-Head': z
    .enum(['strip', 'keep'])
    .optional()
    .openapi({ description: 'Whether a volatile line at the head of the prompt is removed; default: strip' }),
  'X-Program-Regions': z
    .string()
    .optional()
    .openapi({ description: 'Regions that may serve the program, separated by commas; the call never leaves them' }),
  'X-Program-Home': z.enum(HOMES).optional().openapi({
    description: 'Where the actor of a program that the call opens is to live; default: near the caller',
  }),
  'X-Resume': z.string().optional().openapi({
    description: '`off`: an answer that breaks ends with an error event, and does not go on at another engine',
  }),
  'X-Switchyard-Strict': z
    .enum(['true', 'false'])
    .optional()
    .openapi({ description: 'Refuses fields that have no effect and hints; default: as the key says' }),
  'X-Program-Hints': z.string().optional().openapi({
    description: '`expect_tool_s=2.5`: seconds that the tool after the call is expected to take',
  }),
  'X-Tool-Time': z.string().optional().openapi({
    description: 'Tools that the client has run since its last call: `search;dur=120, read;dur=8`, in milliseconds',
  }),
  'X-App': z.string().optional().openapi({ description: 'Label of the application; programs of one app form a class' }),
})
