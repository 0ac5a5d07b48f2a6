/**
 * What is not there: programs that are not used any more go stale, and a pool whose agent has gone silent answers 503.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually, System } from './support/system.ts'

const MODEL = 'emulated-8b'
let system: System

beforeAll(async () => {
  system = await System.start({
    engine: 'emulated',
    flags: ['--regions', 'us-east', '--program-stale-after-s', '2'],
  })
})
afterAll(async () => {
  await system.remove()
})

interface ProgramAnswer {
  id: string
  run: string
  state: string
  end_reason: string | null
  calls: number
  service_s: number
}

function chat(program: string): Promise<Response> {
  return system.fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'X-Program-Id': program },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'go' }], max_tokens: 4 }),
  })
}

async function program(id: string): Promise<ProgramAnswer> {
  return (await (await system.fetch(`/v1/programs/${id}`)).json()) as ProgramAnswer
}

it('a program without calls goes stale, is archived with its sums, and its id opens a new run', async () => {
  await (await chat('forgotten')).text()
  const stale = await eventually('it goes stale', async () => {
    const answer = await program('forgotten')
    return answer.state === 'ended' ? answer : undefined
  })
  expect(stale).toMatchObject({ end_reason: 'stale', calls: 1 })
  expect(stale.service_s).toBeGreaterThan(0)
  await eventually('it is archived', async () => {
    const list = (await (await system.fetch('/v1/programs?state=ended')).json()) as { data: ProgramAnswer[] }
    return list.data.find(({ id }) => id === 'forgotten')
  })
  await (await chat('forgotten')).text()
  const again = await program('forgotten')
  expect(again).toMatchObject({ state: 'running', calls: 1 })
  expect(again.run).not.toBe(stale.run)
})

it('a model whose only agent has gone silent answers 503 with Retry-After, until the agent is back', async () => {
  const agent = system.dev.agents[0] as { pid: number }
  process.kill(agent.pid, 'SIGSTOP')
  try {
    // Until the pool gives the engine up, calls are sent to it in vain.
    await eventually('the pool gives the silent engine up', async () => {
      const refused = await chat('meets-silence')
      expect(refused.status).toBe(503)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      const { code } = ((await refused.json()) as { error: { code: string } }).error
      expect(['engine_unreachable', 'no_engine']).toContain(code)
      return code === 'no_engine' ? true : undefined
    })
  } finally {
    process.kill(agent.pid, 'SIGCONT')
  }
  await eventually('it serves again', async () => ((await chat('meets-silence')).status === 200 ? true : undefined))
})
