/** Programs side by side on one vLLM: their accounts, a client that leaves, seats that are taken and given back. */
import { expect, it } from 'vitest'
import { eventually } from '../support/system.ts'
import { outcomes } from './answers.ts'
import { type Answer, type RunningVllm, SEATS } from './running-vllm.ts'

const STORY = 'Tell me a long story about a lighthouse keeper and the sea.'
const LONG_TOKENS = 320

export function programs(running: () => RunningVllm): void {
  it('two programs interleaved, streamed and not: service is the sum of the calls, the records and the ledger', async () => {
    const play = async (program: string, stream: boolean): Promise<Answer[]> => {
      const got: Answer[] = []
      let said = `I am ${program}.`
      for (let turn = 0; turn < 4; turn += 1) {
        const answer = await running().ask(program, { content: `${said} What now?`, max_tokens: 12, stream })
        said += ` ${answer.text}`
        got.push(answer)
      }
      return got
    }
    const [ada, bob] = await Promise.all([play('ada', true), play('bob', false)])
    await running().settled('ada', 'bob')
    for (const [program, own] of [
      ['ada', ada],
      ['bob', bob],
    ] as const) {
      const answer = await running().system.fetch(`/v1/programs/${program}`)
      const summary = (await answer.json()) as { calls: number; service_s: number; wait_s: number }
      expect(summary.calls).toBe(4)
      const sum = (of: (one: Answer) => number) => own.reduce((total, one) => total + of(one), 0)
      expect(summary.service_s).toBeCloseTo(
        sum(({ switchyard }) => switchyard.service_s),
        5,
      )
      expect(summary.wait_s).toBeCloseTo(
        sum(({ switchyard }) => switchyard.wait_s),
        5,
      )
    }
  })

  it('a client that leaves in mid-stream cancels its call, which is charged for what it got', async () => {
    const leaving = new AbortController()
    const left = running().ask('leaves', {
      ...{ content: STORY, max_tokens: 1000, stream: true, signal: leaving.signal },
      onText: (text) => void (text.length > 40 && leaving.abort()),
    })
    await expect(left).rejects.toThrow()
    await eventually('the call is ended', async () => (await outcomes(running(), 'leaves'))[0] ?? undefined, 60_000)
    await running().settled('leaves')
    expect(await outcomes(running(), 'leaves')).toEqual(['cancelled'])
    const summary = (await (await running().system.fetch('/v1/programs/leaves')).json()) as { service_s: number }
    expect(summary.service_s).toBeGreaterThan(0)
    await eventually('its seat is free', async () => (await running().seated()) === 0 || undefined, 60_000)
  })

  it('short programs take seats of long ones, and greedy output is the same with and without preemption', async () => {
    const begun = new Set<string>()
    const long = (program: string) =>
      running().ask(program, {
        ...{ content: `${STORY} It is ${program.slice(-1)}.`, max_tokens: LONG_TOKENS, stream: true },
        onText: () => void begun.add(program),
      })
    const alone = [await long('alone-a'), await long('alone-b')]
    expect(alone.map(({ switchyard }) => switchyard.preemptions)).toEqual([0, 0])
    const before = await running().counts()
    let shortDone = false
    const crowds = ['crowd-a', 'crowd-b']
    expect(crowds).toHaveLength(SEATS)
    const crowd = Promise.all(crowds.map(long))
    await eventually('both seats are taken', () => crowds.every((program) => begun.has(program)) || undefined)
    const short = (async () => {
      for (let turn = 0; turn < 6; turn += 1)
        await running().ask(`short-${turn}`, { content: 'What is the capital of France?', max_tokens: 8 })
      shortDone = true
    })()
    const crowded = await crowd
    expect(shortDone, 'the short programs end before the long ones').toBe(true)
    await short
    expect(crowded.map(({ text }) => text)).toEqual(alone.map(({ text }) => text))
    expect(crowded.map(({ usage }) => usage.completion_tokens)).toEqual(
      alone.map(({ usage }) => usage.completion_tokens),
    )
    const preempted = crowded.reduce((total, { switchyard }) => total + switchyard.preemptions, 0)
    expect(preempted).toBeGreaterThan(0)
    const after = await running().counts()
    expect(after.preemptions - before.preemptions).toBeGreaterThanOrEqual(preempted)
    await running().settled('crowd-a', 'crowd-b', 'short-0', 'short-5')
  })
}
