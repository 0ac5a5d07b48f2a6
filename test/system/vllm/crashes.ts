/** kill -9 in mid-stream: of vLLM, which the agent starts again, and of the agent, which the next one follows at the same vLLM. */
import { APIError } from 'openai'
import { expect, it } from 'vitest'
import { isAlive } from '../../../scripts/ops/processes.ts'
import { eventually } from '../support/system.ts'
import { outcomes } from './answers.ts'
import { type RunningVllm, START_MS } from './running-vllm.ts'

const STORY = 'Tell me a long story about a clockmaker in a town by a river.'

interface Streaming {
  /** Resolves with what the client got, or the error that its stream ended with. */
  end: Promise<unknown>
}

/** A stream of which text has come. */
async function streaming(running: RunningVllm, program: string): Promise<Streaming> {
  const text = Promise.withResolvers<void>()
  const end = running
    .ask(program, {
      content: STORY,
      max_tokens: 1000,
      stream: true,
      onText: (so_far) => void (so_far && text.resolve()),
    })
    .catch((error: unknown) => error)
  await Promise.race([text.promise, end])
  return { end }
}

export function crashes(running: () => RunningVllm): void {
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
    expect(await outcomes(running(), 'orphan')).toHaveLength(2)
    expect((await outcomes(running(), 'orphan')).filter((outcome) => outcome === 'completed')).toHaveLength(1)
    await eventually(
      'nobody computes for a client that is gone',
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
    const ended = await outcomes(running(), 'bereft')
    expect(ended).toHaveLength(2)
    expect(ended.filter((outcome) => outcome === 'completed')).toHaveLength(1)
  })
}
