/**
 * Readers of one byte a second, whose answers come thousands of times faster: memory stays bounded, and others are served as if
 * they were not there.
 */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { opened, rawCall } from './support/raw-call.ts'

const READERS = 6
/** Each has a seat. */
const CHOICES = 8
const SEATS_FOR_OTHERS = 2
const OTHERS = 10
/** What all slow readers together may cost a process. */
const MEMORY_BYTES_MAX = 64 * 1024 * 1024

let fleet: Fleet
let agent: FleetAgent
beforeAll(async () => {
  const seats = READERS * CHOICES + SEATS_FOR_OTHERS
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 1, engines_per_agent: 1, model: MODEL },
    agent_flags: { profile: 'emulated-8b', seats, slots: 2 * seats, policy: 'fcfs' },
  })
  agent = fleet.agents[0] as FleetAgent
})
afterAll(() => fleet.remove())

const answer = (tokens: number) => ({ max_tokens: tokens, n: CHOICES })

/** After it both processes have the memory that such answers take while they are read. */
async function readAtOnce(): Promise<void> {
  const messages = [{ role: 'user', content: 'Hi' }]
  const body = JSON.stringify({ model: MODEL, messages, stream: true, ...answer(400) })
  const post = async (): Promise<string> => (await fleet.fetch('/v1/chat/completions', { method: 'POST', body })).text()
  const texts = await Promise.all(Array.from({ length: READERS }, post))
  for (const text of texts) expect(text).toContain('[DONE]')
}

function residentBytes(pid: number): number {
  const line = readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+) kB/)
  return Number(line?.[1] ?? 0) * 1024
}

it.runIf(process.platform === 'linux')(
  'readers of one byte a second: memory stays bounded, and others are served as if they were not there',
  async () => {
    await readAtOnce()
    const workerd = fleet.workerdPid ?? 0
    const daemon = agent.child.pid ?? 0
    const before = { workerd: residentBytes(workerd), daemon: residentBytes(daemon) }
    const sockets = await Promise.all(
      Array.from({ length: READERS }, async (_, index) => {
        const { head, body } = rawCall(fleet, `slow-${index}`, answer(1000))
        const socket = await opened(fleet)
        socket.pause()
        socket.write(head + body)
        return socket
      }),
    )
    const reading = setInterval(() => {
      for (const socket of sockets) socket.read(1)
    }, 1000)
    try {
      for (let turn = 0; turn < OTHERS; turn += 1) {
        expect(await clientCall(callOf(fleet, `beside-${turn}`, { output_tokens: 40 }))).toMatchObject({
          end: 'completed',
        })
      }
      await new Promise((resolve) => setTimeout(resolve, 5000))
      expect(residentBytes(workerd) - before.workerd).toBeLessThan(MEMORY_BYTES_MAX)
      expect(residentBytes(daemon) - before.daemon).toBeLessThan(MEMORY_BYTES_MAX)
    } finally {
      clearInterval(reading)
      for (const socket of sockets) socket.destroy()
    }
    const programs = sockets.map((_, index) => `slow-${index}`)
    await reconciled(fleet, [localTenant(fleet)], programs)
    expect(await clientCall(callOf(fleet, null, {}))).toMatchObject({ end: 'completed' })
  },
)
