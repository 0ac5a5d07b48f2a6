import { beforeEach, describe, expect, it, vi } from 'vitest'
import { ClassSketch } from '../core/classes/class-sketch.ts'
import type { ClassSketchData } from '../protocol/index.ts'
import { ASK_INTERVAL, ASKS_AT_ONCE_MAX, POOL_CLASSES_MAX, PoolClasses } from './pool-classes.ts'

function world(answer: () => Promise<{ sketch: ClassSketchData; revision: string } | null>) {
  const asked: string[] = []
  const revisions: (string | null)[] = []
  const sent: string[] = []
  let work: Promise<unknown> = Promise.resolve()
  const classes = new PoolClasses({
    actorOf: (_, name) => ({
      sketch: (known) => {
        asked.push(name)
        revisions.push(known)
        return answer()
      },
    }),
    waitUntil: (more) => {
      work = Promise.all([work, more])
    },
    send: (frame) => sent.push(frame),
  })
  return { classes, asked, revisions, sent, idle: () => work }
}

const known = (revision: string) => ({ sketch: new ClassSketch().data(), revision })

beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

describe('a pool’s questions about a class', () => {
  it('come with its calls, at once and then ever more rarely', async () => {
    const { classes, asked, idle } = world(async () => null)
    const at_s: number[] = []
    for (let now_s = 0; now_s <= 200; now_s++) {
      const before = asked.length
      classes.leased('a', 'x', 1000 * now_s)
      await idle()
      if (asked.length > before) at_s.push(now_s)
    }
    expect(at_s).toEqual([0, 2, 6, 14, 30, 62, 122, 182])
    expect(ASK_INTERVAL.max_ms).toBe(60_000)
  })

  it('name what was said last, and what is said stays until something else is', async () => {
    const answers = [known('one'), null, known('two')]
    const { classes, revisions, idle } = world(async () => answers.shift() ?? null)
    for (const now_ms of [0, 60_000, 120_000, 180_000]) {
      classes.leased('a', 'x', now_ms)
      await idle()
    }
    expect(revisions).toEqual([null, 'one', 'one', 'two'])
    expect(classes.frames()).toHaveLength(1)
  })

  it('are bounded while actors do not answer, and one that fails is asked again later', async () => {
    const { promise, reject } = Promise.withResolvers<null>()
    const { classes, asked, idle } = world(() => promise)
    for (let at = 0; at < 2 * ASKS_AT_ONCE_MAX; at++) classes.leased('a', `${at}`, 0)
    expect(asked).toHaveLength(ASKS_AT_ONCE_MAX)
    reject(new Error('gone'))
    await idle()
    classes.leased('a', '0', ASK_INTERVAL.min_ms)
    expect(asked).toHaveLength(ASKS_AT_ONCE_MAX + 1)
  })

  it('are forgotten with the class that was leased for longest ago', async () => {
    const { classes, asked, idle } = world(async () => null)
    for (let at = 0; at <= POOL_CLASSES_MAX; at++) {
      classes.leased('a', `${at}`, 0)
      await idle()
    }
    classes.leased('a', `${POOL_CLASSES_MAX}`, 1)
    classes.leased('a', '1', 1)
    expect(asked).toHaveLength(POOL_CLASSES_MAX + 1)
    classes.leased('a', '0', 1)
    expect(asked).toHaveLength(POOL_CLASSES_MAX + 2)
  })
})
