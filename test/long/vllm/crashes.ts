/** kill -9 in mid-stream: of vLLM, which the agent starts again, and of the agent, which the next one follows at the same vLLM. */
import { APIError } from 'openai'
import { expect, it } from 'vitest'
import { isAlive } from '../../../ops/system/processes.ts'
import { eventually } from '../../system/support/system.ts'
import { type RunningVllm, START_MS } from '../../system/vllm/running-vllm.ts'

const STORY = 'Tell me a long story about a clockmaker in a town by a river.'

interface Streaming {
  /** Resolves with what the client got, or the error that its stream ended with. */
  end: Promise<unknown>
}

/** So much text takes seconds, and what a call costs is told five times a second. */
const TEXT_CHARS = 120

/** A stream of which some text has come. */
async function streaming(running: RunningVllm, program: string): Promise<Streaming> {
  const text = Promise.withResolvers<void>()
  const end = running
    .ask(program, {
      content: STORY,
      max_tokens: 1000,
      stream: true,
      // Otherwise it goes on at the next agent.
      headers: { 'X-Resume': 'off' },
      onText: (so_far) => void (so_far.length > TEXT_CHARS && text.resolve()),
    })
    .catch((error: unknown) => error)
  await Promise.race([text.promise, end])
  return { end }
}

export function crashes(running: () => RunningVllm): void {
  /** The call that was cut off, with what it had cost, and the one after it; each of one lease. */
  async function hasBoth(program: string): Promise<void> {
    const answer = await running().system.fetch(`/v1/programs/${program}/calls?limit=100`)
    const { data } = (await answer.json()) as { data: { outcome: string; leases: { service_wall_s: number }[] }[] }
    expect(data.map(({ outcome }) => outcome === 'completed').sort()).toEqual([false, true])
    expect(data.map(({ leases }) => leases.length)).toEqual([1, 1])
    for (const { leases } of data) expect(leases[0]?.service_wall_s).toBeGreaterThan(0)
  }

  it('kill -9 of the agent: vLLM lives on, the next agent takes it over and settles what the first had open', async () => {
    const { pid: vllm } = running().state ?? { pid: 0 }
    const agent = running().agentPid
    const epoch = await running().ready('the engine is ready')
    const { end } = await streaming(running(), 'orphan')
    process.kill(agent, 'SIGKILL')
    expect(await end).toBeInstanceOf(APIError)
    await eventually('another agent runs', () => (running().agentPid === agent ? undefined : true), START_MS)
    expect(isAlive(vllm)).toBe(true)
    expect(await running().ready('the engine is ready again')).toBe(epoch)
    const again = await running().ask('orphan', { content: 'What is the capital of France?', max_tokens: 8 })
    expect(again.text).toContain('Paris')
    await running().settled('orphan')
    expect(running().state?.pid).toBe(vllm)
    await hasBoth('orphan')
    await eventually(
      'nothing is computed for a client that is gone',
      async () => (await running().seated()) === 0 || undefined,
    )
  })

  it('kill -9 of vLLM: the stream ends with an error, another vLLM is started, and the next call is served', async () => {
    const { pid } = running().state ?? { pid: 0 }
    const epoch = await running().ready('the engine is ready')
    const { end } = await streaming(running(), 'bereft')
    // The API server and the engine's processes are one group.
    process.kill(-pid, 'SIGKILL')
    expect(await end).toBeInstanceOf(APIError)
    expect(await running().ready('another vLLM serves', epoch)).not.toBe(epoch)
    expect(running().state?.pid).not.toBe(pid)
    const again = await running().ask('bereft', { content: 'What is the capital of France?', max_tokens: 8 })
    expect(again.text).toContain('Paris')
    await running().settled('bereft')
    await hasBoth('bereft')
  })
}
