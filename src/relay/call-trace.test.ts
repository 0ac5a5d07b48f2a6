import { expect, it } from 'vitest'
import { Tracing } from './call-trace.ts'

const SETTINGS = { url: 'http://receiver/v1/traces', headers: {}, ratio: 1 }

function traced() {
  const sent: string[][] = []
  const gates: (() => void)[] = []
  const post = async (_: unknown, init?: RequestInit): Promise<Response> => {
    const body = JSON.parse(String(init?.body))
    sent.push(body.resourceSpans[0].scopeSpans[0].spans.map(({ name }: { name: string }) => name))
    await new Promise<void>((resolve) => gates.push(resolve))
    return new Response()
  }
  const tracing = new Tracing(SETTINGS, post as typeof fetch)
  const call = (name: string) =>
    tracing.add(tracing.begin(new Headers(), Date.now)?.finish(name, {}, null) ?? [], Date.now)
  return { sent, gates, call }
}

const settled = (what: () => boolean) => expect.poll(what).toBe(true)

it('sends the calls of a moment in one request', async () => {
  const { sent, gates, call } = traced()
  const all = Promise.all([call('a'), call('b'), call('c')])
  await settled(() => gates.length === 1)
  gates[0]?.()
  await all
  expect(sent).toEqual([['a', 'b', 'c']])
})

it('sends calls that end while others are being sent, though no further call comes', async () => {
  const { sent, gates, call } = traced()
  const first = call('a')
  await settled(() => gates.length === 1)
  const rest = Promise.all([call('b'), call('c')])
  gates[0]?.()
  await first
  await settled(() => gates.length === 2)
  gates[1]?.()
  await rest
  expect(sent).toEqual([['a'], ['b', 'c']])
})
