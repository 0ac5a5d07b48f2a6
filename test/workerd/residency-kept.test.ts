/** A program that its first call holds to regions stays held, whatever of its actor or of D1 is lost right after. */
import { abortAllDurableObjects } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { residencyOf } from '../../src/store/residency.ts'
import { breakD1, replaceD1 } from './actor-tools.ts'
import { admission, provision } from './fixtures.ts'

const TENANT = 'tenant-a'
const EAST = ['us-east']

beforeAll(provision)

beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const actor = (program: string) => programActor(env, TENANT, program)
const inD1 = (program: string) => residencyOf(env.DB, TENANT, program)

async function open(program: string): Promise<void> {
  expect(await actor(program).admit(admission(program, 'call-0', { regions: EAST }))).toMatchObject({ regions: EAST })
}

it('when the actor dies before its flush', async () => {
  await open('crashed')
  await abortAllDurableObjects()
  const next = await actor('crashed').admit(admission('crashed', 'call-1'))
  expect(next).toMatchObject({ status: 'admitted', regions: EAST })
})

it('when D1 is down as it opens: D1 learns of it later', async () => {
  await actor('down').describe(Date.now())
  await breakD1('down')
  await open('down')
  await replaceD1('down', env.DB)
  await expect.poll(() => inD1('down'), { timeout: 10_000 }).toEqual(EAST)
})

it('when D1 is down and the actor dies: D1 learns of it from the next actor', async () => {
  await actor('both').describe(Date.now())
  await breakD1('both')
  await open('both')
  await abortAllDurableObjects()
  expect(await inD1('both')).toBeNull()
  await actor('both').describe(Date.now())
  await expect.poll(() => inD1('both'), { timeout: 10_000 }).toEqual(EAST)
})

it('and is forgotten where it ends before D1 answers again', async () => {
  await actor('ended').describe(Date.now())
  await breakD1('ended')
  await open('ended')
  await replaceD1('ended', env.DB)
  await actor('ended').end(Date.now())
  await open('later')
  await expect.poll(() => inD1('later'), { timeout: 10_000 }).toEqual(EAST)
  expect(await inD1('ended')).toBeNull()
})
