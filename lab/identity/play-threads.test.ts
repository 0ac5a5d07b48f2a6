import { describe, expect, it } from 'vitest'
import { playThreads } from './play-threads.ts'
import { type RecordedRun, readRecordings } from './recording.ts'

const recordings = new Map(readRecordings().map((recording) => [recording.client, recording.runs]))

function runsOf(client: string): RecordedRun[] {
  return recordings.get(client) ?? expect.unreachable()
}

/** The calls of each thread, threads by their first call, and whether each call has the one before it as its only parent. */
function chainsOf(run: Pick<RecordedRun, 'calls'>) {
  const placed = playThreads(run)
  const threads = [...new Set(placed.map(({ thread }) => thread))]
  return threads.map((thread) => {
    const calls = placed.filter((call) => call.thread === thread)
    const expected = calls.map((_, at) => calls.slice(Math.max(0, at - 1), at).map(({ index }) => index))
    expect(calls.map(({ parents }) => parents)).toEqual(expected)
    return calls.map(({ index }) => index)
  })
}

/** As if every call came after the answer of the one before it. */
function oneByOne({ calls }: RecordedRun): Pick<RecordedRun, 'calls'> {
  return { calls: calls.map((call, at) => ({ ...call, arrived_ms: 10 * at, answered_ms: 10 * at + 5 })) }
}

/** As if every call came before the end of the one before it was reported. */
function overlapping({ calls }: RecordedRun): Pick<RecordedRun, 'calls'> {
  return { calls: calls.map((call, at) => ({ ...call, arrived_ms: 10 * at, answered_ms: 10 * at + 15 })) }
}

const PLAYS = [
  ['as recorded', (run: RecordedRun) => run],
  ['one call after the other', oneByOne],
  ['with late reports of ends', overlapping],
] as const

describe.each(PLAYS)('recorded sessions, %s', (_, play) => {
  it('claude-code: one thread, a chain', () => {
    for (const run of runsOf('claude-code')) expect(chainsOf(play(run))).toEqual([run.calls.map((_, at) => at)])
  })

  it('opencode: the title beside the agent, who is a chain', () => {
    for (const run of runsOf('opencode')) {
      expect(chainsOf(play(run))).toEqual([[0], run.calls.map((_, at) => at).slice(1)])
    }
  })

  it('opencode with a sub-agent: the title, the agent and the sub-agent', () => {
    for (const run of runsOf('opencode-sub-agent')) {
      const of_sub_agent = run.calls.flatMap(({ headers }, at) => ('x-parent-session-id' in headers ? [at] : []))
      const of_agent = run.calls.map((_, at) => at).filter((at) => at > 0 && !of_sub_agent.includes(at))
      expect(of_sub_agent.length).toBeGreaterThan(0)
      expect(chainsOf(play(run))).toEqual([[0], of_agent, of_sub_agent])
    }
  })

  it('claude-code with a sub-agent: the agent and the sub-agent', () => {
    for (const run of runsOf('claude-code-sub-agent')) {
      const of_sub_agent = run.calls.flatMap(({ headers }, at) => ('x-claude-code-agent-id' in headers ? [at] : []))
      const of_agent = run.calls.map((_, at) => at).filter((at) => !of_sub_agent.includes(at))
      expect(of_sub_agent.length).toBeGreaterThan(0)
      expect(chainsOf(play(run))).toEqual([of_agent, of_sub_agent])
    }
  })
})

describe('recorded agents under one session name', () => {
  /** Two runs of a client that names nothing, with questions of their own. Their calls take turns. */
  function session(client: string): { run: Pick<RecordedRun, 'calls'>; agents: number[] } {
    const [first, other] = runsOf(client)
    if (first === undefined || other === undefined) return expect.unreachable()
    const asked = JSON.stringify(other).replaceAll('Is it warmer', 'Is it colder')
    const second = JSON.parse(asked) as RecordedRun
    const turns = first.calls.map((call, at) => [call, second.calls[at] ?? expect.unreachable()])
    const calls = turns.flat().map((call) => {
      return { ...call, headers: { ...call.headers, 'x-litellm-session-id': 'session' } }
    })
    return { run: oneByOne({ run: 'session', calls }), agents: calls.map((_, at) => at % 2) }
  }

  it.each(['openai-py', 'langchain-js', 'pydantic-ai', 'litellm', 'anthropic-py', 'openai-agents-py'])(
    '%s: each is a thread, a chain',
    (client) => {
      const { run, agents } = session(client)
      const calls = [0, 1].map((agent) => agents.flatMap((own, at) => (own === agent ? [at] : [])))
      expect(chainsOf(run)).toEqual(calls)
    },
  )
})
