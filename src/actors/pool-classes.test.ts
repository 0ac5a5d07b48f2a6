import { beforeEach, describe, expect, it, vi } from 'vitest'
import { ClassSketch } from '../core/classes/class-sketch.ts'
import type { ClassSketchData } from '../protocol/index.ts'
import {
  ASK_INTERVAL,
  ASKS_AT_ONCE_MAX,
  POOL_CLASSES_BYTES_MAX,
  POOL_CLASSES_MAX,
  PoolClasses,
} from './pool-classes.ts'

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

  it('are forgotten before all that is known takes too much memory', async () => {
    const bins = Array.from({ length: 213 }, (_, at): [number, number, number] => [at, 1 / 3, 2 ** (at / 4) / 3])
    const figures = { output_tokens: bins, calls: bins, path_us: bins, service_us: bins, tool_us: bins }
    const sketch: ClassSketchData = { ends: 1, ...figures, later_prompt_tokens: bins, going_on: bins }
    const large = {
      ...sketch,
      tools: { tools: [], all: { uses: 1, duration_us: bins, answer_tokens: bins }, situations: [] },
    }
    const padded = { ...large, tools: { ...large.tools, situations: situations(bins) } }
    const { classes, idle } = world(async () => ({ sketch: padded, revision: 'one' }))
    for (let at = 0; at < 300; at++) {
      classes.leased('a', `${at}`, 0)
      await idle()
    }
    const bytes = classes.frames().reduce((sum, frame) => sum + frame.length, 0)
    expect(bytes).toBeGreaterThan(POOL_CLASSES_BYTES_MAX / 2)
    expect(bytes).toBeLessThan(POOL_CLASSES_BYTES_MAX * 1.01)
    expect(classes.frames().at(-1)).toContain('"class":"299"')
  })
})

function situations(output_tokens: [number, number, number][]) {
  return Array.from({ length: 16 }, (_, position) => ({ last: -1, position, next: [], output_tokens }))
}
