/** What a client sees of usage that cannot be, in a stream whose bytes are the engine's. */
import { expect, it } from 'vitest'
import { DOUBTED_AGENTS_MAX, DOUBTED_MS, DoubtedAgents } from './doubted-agents.ts'
import { runCall } from './run-call.ts'
import { chat, delta, type Engine, PROGRAM, Script, world } from './testing/world.ts'

const SOUND = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const END = 'data: [DONE]\n\n'
/** Larger than any number that JSON.stringify writes of its own. */
const HUGE = '{"prompt_tokens":1e308,"completion_tokens":1}'

function stating(...usages: readonly string[]): Engine {
  let calls = 0
  return () => {
    const usage = usages[Math.min(calls, usages.length - 1)]
    calls += 1
    const script = new Script().chunk(delta('he')).write(': alive\n\n').chunk(delta('llo'))
    return script.write(`data: {"choices":[],"usage":${usage}}\n\n${END}`).end().response
  }
}

async function streamed(w: ReturnType<typeof world>): Promise<string> {
  const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', w.deps)
  const text = await response.text()
  await w.settled()
  return text
}

const NONSENSE = [HUGE, '{"prompt_tokens":-7}', '{"completion_tokens":0.5}', '"none"']

it.each(NONSENSE)(
  'after %s the streams of that agent are read, and their usage is left out where it is nonsense',
  async (lie) => {
    const w = world({ engines: { e0: stating(lie, lie, JSON.stringify(SOUND)) } })
    await streamed(w)
    const second = await streamed(w)
    expect(second).not.toContain('usage')
    expect(second).toContain('"content":"he"')
    expect(second).toContain('"content":"llo"')
    expect(second.endsWith(END)).toBe(true)
    expect(await streamed(w)).toContain(JSON.stringify(SOUND))
    expect(w.reports.filter((event) => event === 'usage_nonsense')).toHaveLength(2)
  },
)

it('a stream of an agent that is not doubted is the engine’s own bytes, spaces and all', async () => {
  const odd = '{ "prompt_tokens" : 3 , "completion_tokens":2, "extra": 1e0 }'
  const w = world({ engines: { e0: stating(odd) } })
  for (let call = 0; call < 2; call += 1) expect(await streamed(w)).toContain(`data: {"choices":[],"usage":${odd}}\n\n`)
})

it('finds nonsense beside the finish, where no chunk of its own has the usage', async () => {
  const last = { ...delta(''), usage: { prompt_tokens: -1 } }
  const w = world({ engines: { e0: () => new Script().chunk(delta('hi')).chunk(last).write(END).end().response } })
  await streamed(w)
  expect(await streamed(w)).not.toContain('usage')
})

it('doubts for a while, and remembers the agents that were doubted last', () => {
  const doubted = new DoubtedAgents()
  doubted.doubt('a', 0)
  expect([doubted.has('a', DOUBTED_MS - 1), doubted.has('a', DOUBTED_MS), doubted.has('b', 0)]).toEqual([
    true,
    false,
    false,
  ])
  for (let agent = 0; agent < DOUBTED_AGENTS_MAX; agent += 1) doubted.doubt(`agent-${agent}`, 0)
  expect([doubted.has('a', 0), doubted.has('agent-0', 0)]).toEqual([false, true])
})
