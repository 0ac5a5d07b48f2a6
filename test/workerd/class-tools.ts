/** What tests of classes share: programs that end, and what their class then knows. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { vi } from 'vitest'
import { classActor, programActor } from '../../src/actors/stubs.ts'
import type { EndedProgram } from '../../src/core/classes/ended-program.ts'
import { admission, leaseOf, recordOf } from './fixtures.ts'

export const TENANT = 'tenant-a'
export const FACTS: EndedProgram = {
  ...{ output_tokens: 50, calls: 2, path_us: 10, service_us: 20, tool_us: 30, later_prompt_tokens: 40 },
}

/** Moves the wall clock on. Timers run as they do. */
export const later = (ms: number) => vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })

/** For `beforeEach`: nothing is printed, and the clock is right again afterwards. */
export function quietWithTrueClock(): () => void {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => {
    log.mockRestore()
    vi.useRealTimers()
  }
}

export const classStub = (name: string, tenant = TENANT) => env.CLASS.getByName(JSON.stringify([tenant, name]))
export const actor = (program: string) => programActor(env, TENANT, program)
export const sketchOf = async (name: string, tenant = TENANT) =>
  (await classActor(env, tenant, name).sketch(null))?.sketch
export const endsOf = async (name: string) => (await sketchOf(name))?.ends ?? 0
export const refused = async () => {
  throw new Error('refused')
}

/** Opens a call of a program of this class. */
export async function openCall(program: string, call: string, of_class: string): Promise<string> {
  const reply = await actor(program).admit(admission(program, call, { class: of_class }))
  if (reply.status !== 'admitted') throw new Error(reply.message)
  await actor(program).leaseOpened(leaseOf(reply.run, call))
  return reply.run
}

/** A program of two calls that ended after its records had come. */
export async function endedProgram(program: string, of_class: string): Promise<string> {
  const calls = [`${program}-0`, `${program}-1`]
  let run = ''
  for (const call of calls) run = await openCall(program, call, of_class)
  await actor(program).settle(calls.map((call) => recordOf(program, run, call)))
  await actor(program).end(Date.now())
  return run
}

export async function storedEnds(name: string, tenant = TENANT): Promise<number | null> {
  return runInDurableObject(classStub(name, tenant), async (_, { storage }) => {
    const stored = await storage.get<{ known: { sketch: { ends: number } } }>('class')
    return stored?.known.sketch.ends ?? null
  })
}
