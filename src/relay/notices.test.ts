import { describe, expect, it } from 'vitest'
import { NOTICE_INTERVAL_MS, NOTICES_MAX, Notices } from './notices.ts'
import { runCall } from './run-call.ts'
import { ADMITTED, answering, chat, MODEL, PROGRAM, world } from './testing/world.ts'

describe('a pool that leased a call as one of another class', () => {
  it('is told the program’s class, once in a while', async () => {
    const it = world({ engines: { e0: answering('hi') } })
    for (let call = 0; call < 3; call++) await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    await it.settled()
    expect(it.saidTo('noticeClass')).toEqual([{ tenant: 't', class: 'app:x' }])
  })

  it('is told nothing if the class was right', async () => {
    const it = world({
      engines: { e0: answering('hi') },
      program: { admit: async () => ({ ...ADMITTED, class: 'tenant' }) },
    })
    await (await runCall(chat({}, PROGRAM), 'chat', it.deps)).text()
    await it.settled()
    expect(it.saidTo('lease')).toMatchObject([{ class: 'tenant' }])
    expect(it.saidTo('noticeClass')).toEqual([])
  })

  it('serves the call though it cannot be told', async () => {
    const noticeClass = () => Promise.reject(new Error('gone'))
    const it = world({ engines: { e0: answering('hi') }, pool: { noticeClass } })
    expect((await runCall(chat({}, PROGRAM), 'chat', it.deps)).status).toBe(200)
    await it.settled()
    expect(it.reports).toContain('class_not_noticed')
  })
})

describe('lent hosts', () => {
  const missed = (model: string) => ({ model, regions: ['near'] })

  it('are told of an online call that found no engine, once in a while', async () => {
    const it = world()
    for (let call = 0; call < 3; call++) expect((await runCall(chat(), 'chat', it.deps)).status).toBe(503)
    await it.settled()
    expect(it.saidTo('returnFor')).toEqual([missed(MODEL)])
  })

  it('are told of no offline call', async () => {
    const it = world()
    expect((await runCall(chat(), 'chat', it.deps, 'offline')).status).toBe(503)
    await it.settled()
    expect(it.saidTo('returnFor')).toEqual([])
  })

  it('that cannot be told change no answer', async () => {
    const it = world()
    it.deps.returnHosts = () => Promise.reject(new Error('gone'))
    expect((await runCall(chat(), 'chat', it.deps)).status).toBe(503)
    await it.settled()
    expect(it.reports).toContain('hosts_not_told')
  })
})

describe('notices', () => {
  it('are due again after an interval', () => {
    const notices = new Notices()
    expect([0, 1, NOTICE_INTERVAL_MS - 1, NOTICE_INTERVAL_MS].map((at_ms) => notices.isDue('a', at_ms))).toEqual([
      ...[true, false, false, true],
    ])
    expect(notices.isDue('b', 1)).toBe(true)
  })

  it('are remembered of a bounded number of classes', () => {
    const notices = new Notices()
    for (let name = 0; name < 2 * NOTICES_MAX; name++) notices.isDue(`${name}`, 0)
    expect(notices.size).toBe(NOTICES_MAX)
  })
})
