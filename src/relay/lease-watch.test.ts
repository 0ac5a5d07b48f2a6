import { describe, expect, it } from 'vitest'
import { type LeaseSign, watchLease } from './lease-watch.ts'
import { runCall } from './run-call.ts'
import { chat, cutWithSignal, delta, type Engine, PROGRAM, Script, world } from './testing/world.ts'

const times = {
  lease_check_interval_ms: 5,
  lease_check_timeout_ms: 20,
  lease_silent_ms_max: 60,
  lease_read_out_ms: 60,
}

/** An engine that answers a call with `script` and questions after its lease with what `lease` says. */
function engine(script: Script, lease: (request: Request) => Response | Promise<Response>): Engine {
  return (request) =>
    new URL(request.url).pathname.startsWith('/v1/leases/')
      ? lease(request)
      : cutWithSignal(script.response, request.signal)
}

/** As the network does it: an aborted fetch rejects. */
function never(request: Request): Promise<Response> {
  const { promise, reject } = Promise.withResolvers<Response>()
  request.signal.addEventListener('abort', () => reject(request.signal.reason))
  return promise
}

const over = (): Response => Response.json({ error: {} }, { status: 404 })

async function stream(script: Script, lease: (request: Request) => Response | Promise<Response>) {
  const it = world({ engines: { e0: engine(script, lease) }, times })
  const response = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
  return { it, response }
}

describe('a stream whose host is watched', () => {
  it.each([
    ['says nothing', never],
    [
      'cannot be reached',
      () => {
        throw new Error('Network connection lost.')
      },
    ],
    ['is something else', () => new Response(null, { status: 502 })],
    ['has no such call any more', over],
  ])('ends with an error event when the host %s', async (_, lease) => {
    const { it, response } = await stream(new Script().chunk(delta('a')), lease)
    const text = await response.text()
    expect(text).toContain('"code":"engine_failed"')
    expect(text).not.toContain('[DONE]')
    await it.settled()
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'failed', error_code: 'engine_failed' }])
  })

  it('goes on while its host says that it is open, however long it is silent', async () => {
    let asked = 0
    const script = new Script().chunk(delta('a'))
    const { it, response } = await stream(script, (request) => {
      asked += 1
      expect(request.headers.get('authorization')).toMatch(/^Bearer ./)
      if (asked === 30) script.chunk(delta('b')).write('data: [DONE]\n\n').end()
      return Response.json({ open: true })
    })
    expect(await response.text()).toMatch(/"a".*"b".*\[DONE\]/s)
    await it.settled()
    expect(asked).toBeGreaterThanOrEqual(30)
    expect(it.saidTo('callEnded')).toMatchObject([{ outcome: 'completed' }])
  })

  it('goes on after an answer that was missed', async () => {
    let asked = 0
    const script = new Script().chunk(delta('a'))
    const { response } = await stream(script, () => {
      asked += 1
      if (asked === 12) script.write('data: [DONE]\n\n').end()
      return asked % 2 === 0 ? Response.json({ open: true }) : new Response(null, { status: 502 })
    })
    expect(await response.text()).toContain('[DONE]')
  })

  it('is asked after no more once it has ended', async () => {
    let asked = 0
    const { response } = await stream(new Script().chunk(delta('a')).write('data: [DONE]\n\n').end(), () => {
      asked += 1
      return Response.json({ open: true })
    })
    await response.text()
    const then = asked
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(asked).toBe(then)
  })
})

describe('a Worker that did not run for longer than a host may be silent', () => {
  /** What is told of a host that gives these signs, the first of them after the pause. */
  async function lostAfter(signs: readonly LeaseSign[]): Promise<{ asked: number; lost: string[] }> {
    let now_ms = 0
    let asked = 0
    const lost: string[] = []
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const check = async (): Promise<LeaseSign> => {
      if (asked === 0) now_ms += 10 * times.lease_silent_ms_max
      const sign = signs[asked] ?? 'open'
      asked += 1
      if (asked > signs.length) resolve()
      return sign
    }
    const unwatch = watchLease(
      check,
      times,
      () => now_ms,
      (reason) => {
        lost.push(reason)
        resolve()
      },
    )
    await over
    unwatch()
    return { asked, lost }
  }

  it('believes no single question that it lost', async () => {
    expect(await lostAfter(['none'])).toEqual({ asked: 2, lost: [] })
    expect(await lostAfter(['none', 'open', 'none'])).toEqual({ asked: 4, lost: [] })
  })

  it('ends the stream when the next one is lost too', async () => {
    expect(await lostAfter(['none', 'none', 'none'])).toEqual({ asked: 2, lost: ['its host is silent'] })
  })
})
