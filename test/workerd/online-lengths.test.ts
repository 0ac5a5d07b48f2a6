/** A plan is made with the lengths of online answers where no application and no batch of the tenant has used the model. */
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { knownNodes } from '../../src/actors/application/model-figures.ts'
import { programActor } from '../../src/actors/stubs.ts'
import type { GraphNode } from '../../src/core/application/graph.ts'
import { MODEL_ANSWERS_MIN } from '../../src/core/application/learned-lengths.ts'
import { lastEnded } from './archive-tools.ts'
import { MODEL, openCall, provision, recordOf } from './fixtures.ts'
import { soon } from './soon.ts'

const TENANT = 'tenant-a'
const PROGRAM = 'taught'
const NODE = { id: 'a', model: MODEL, endpoint: '/v1/chat/completions', body: {} } as unknown as GraphNode

beforeAll(provision)

it('from the calls of programs that have ended, of this tenant alone', async () => {
  const lengths = async (tenant: string) => (await knownNodes(env, tenant, null, [NODE]))(NODE).lengths
  expect(await lengths(TENANT)).toBeNull()
  const calls = Array.from({ length: MODEL_ANSWERS_MIN }, (_, at) => `${PROGRAM}-${at}`)
  let run = ''
  for (const call of calls) run = await openCall(PROGRAM, call)
  const actor = programActor(env, TENANT, PROGRAM)
  await actor.settle(calls.map((call) => recordOf(PROGRAM, run, call, { output_tokens: 23 })))
  await actor.end(Date.now())
  await soon(async () => expect(await lastEnded(TENANT, PROGRAM)).not.toBeNull())
  expect((await lengths(TENANT))?.mean_tokens).toBeCloseTo(23, 5)
  expect(await lengths('tenant-b')).toBeNull()
})
