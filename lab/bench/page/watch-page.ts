/** Opens the page in a Chromium, scrolls it all the time, and measures what a person would notice. */
import type { Browser, CDPSession, Page } from 'playwright-core'

export const GOALS = { frame_p95_ms: 33, task_max_ms: 200, heap_growth_max: 1.25 } as const

/** Before it is measured the list is scrolled through once, so that all that is made once is made. */
const WARM_SCROLLS = 40
const HEAP_EVERY_MS = 60_000
const SCROLL_EVERY_MS = 500
const SCROLL_PX = 700
/** Tasks are traced for so long at the end. */
const TRACE_MS = 20_000
const WIDTHS = { width: 1280, height: 900 } as const

export interface PageFigures {
  frames: number
  frame_p50_ms: number
  frame_p95_ms: number
  /** Of tasks on the page's main thread; 0: none took over 50 ms. */
  task_max_ms: number
  tasks_over_50_ms: number
  /** CPU time of the page's main thread ÷ time: independent of what else the machine does. */
  main_thread_cpu: number
  /** The most CPU time that one task took while they were traced. */
  task_cpu_max_ms: number
  /** After a collection: at the start, and after each minute. */
  heap_bytes: number[]
  /** The last of them ÷ the first. */
  heap_growth: number
}

interface Watch {
  /** Frame times in tenths of a millisecond, by how often each came. */
  frames: Record<number, number>
  tasks: number[]
}

export async function watchPage(
  browser: Browser,
  url: string,
  { minutes, told }: { minutes: number; told: (line: string) => void },
): Promise<PageFigures> {
  const page = await browser.newPage({ viewport: WIDTHS })
  await page.goto(`${url}/#/live`)
  await page.getByText('live', { exact: true }).waitFor()
  const devtools = await page.context().newCDPSession(page)
  const heapBytes = async (): Promise<number> => {
    await devtools.send('HeapProfiler.collectGarbage')
    const { usedSize } = await devtools.send('Runtime.getHeapUsage')
    return usedSize
  }
  for (let step = 0; step < WARM_SCROLLS; step++) await scroll(page, step)
  const heap_bytes = [await heapBytes()]
  const cpu = await mainThreadCpu(devtools)
  await page.evaluate(startWatching)
  const end_ms = performance.now() + minutes * 60_000
  let heap_due_ms = performance.now() + HEAP_EVERY_MS
  let step = 0
  while (performance.now() < end_ms) {
    await scroll(page, step)
    step += 1
    if (performance.now() < heap_due_ms) continue
    // A collection is a task of ours and not of the page's.
    await page.evaluate(pauseWatching)
    const bytes = await heapBytes()
    await page.evaluate(resumeWatching)
    heap_bytes.push(bytes)
    told(`${heap_bytes.length - 1} min: heap ${(bytes / 1e6).toFixed(1)} MB`)
    heap_due_ms += HEAP_EVERY_MS
  }
  const { frames, tasks } = await page.evaluate(readWatch)
  const main_thread_cpu = await cpu()
  heap_bytes.push(await heapBytes())
  const task_cpu_max_ms = await longestTaskCpuMs(browser, page)
  await page.close()
  const frame = (part: number) => percentile(frames, part)
  return {
    frames: Object.values(frames).reduce((sum, number) => sum + number, 0),
    ...{ frame_p50_ms: frame(0.5), frame_p95_ms: frame(0.95) },
    ...{ task_max_ms: Math.max(0, ...tasks), tasks_over_50_ms: tasks.length },
    ...{ main_thread_cpu, task_cpu_max_ms },
    ...{ heap_bytes, heap_growth: (heap_bytes.at(-1) ?? 0) / (heap_bytes[0] ?? 1) },
  }
}

/** Down the list and up again. */
async function scroll(page: Page, step: number): Promise<void> {
  await page.mouse.wheel(0, step % WARM_SCROLLS < WARM_SCROLLS / 2 ? SCROLL_PX : -SCROLL_PX)
  await page.waitForTimeout(SCROLL_EVERY_MS)
}

/** Returns what tells the share of the time since then. */
async function mainThreadCpu(devtools: CDPSession): Promise<() => Promise<number>> {
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const taken = async (): Promise<number> => {
    const { metrics } = await devtools.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0
  }
  const [begun_s, begun_ms] = [await taken(), performance.now()]
  return async () => (1000 * ((await taken()) - begun_s)) / (performance.now() - begun_ms)
}

interface TraceEvent {
  name: string
  pid: number
  tid: number
  /** CPU time, microseconds. */
  tdur?: number
  args?: { name?: string }
}

async function longestTaskCpuMs(browser: Browser, page: Page): Promise<number> {
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] })
  const end_ms = performance.now() + TRACE_MS
  for (let step = 0; performance.now() < end_ms; step++) await scroll(page, step)
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] }
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`
  const mains = traceEvents.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
  const main = new Set(mains.map(threadOf))
  const tasks = traceEvents.filter((event) => event.name.endsWith('RunTask') && main.has(threadOf(event)))
  return tasks.reduce((most, { tdur = 0 }) => Math.max(most, tdur / 1000), 0)
}

/** Of counts by tenths of a millisecond. */
export function percentile(counts: Readonly<Record<number, number>>, part: number): number {
  const sorted = Object.entries(counts).map(([tenths, number]) => [Number(tenths), number] as const)
  sorted.sort(([a], [b]) => a - b)
  const wanted = part * sorted.reduce((sum, [, number]) => sum + number, 0)
  let seen = 0
  for (const [tenths, number] of sorted) {
    seen += number
    if (seen >= wanted) return tenths / 10
  }
  return 0
}

interface Watched {
  watch?: Watch & { isPaused: boolean }
}

/** These run in the page. */
function startWatching(): void {
  const watch = { frames: {} as Record<number, number>, tasks: [] as number[], isPaused: false }
  ;(globalThis as Watched).watch = watch
  let last_ms = performance.now()
  const frame = (now_ms: number): void => {
    const tenths = Math.round(10 * (now_ms - last_ms))
    if (!watch.isPaused) watch.frames[tenths] = (watch.frames[tenths] ?? 0) + 1
    last_ms = now_ms
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) if (!watch.isPaused) watch.tasks.push(duration)
  }).observe({ type: 'longtask' })
}

function pauseWatching(): void {
  const { watch } = globalThis as Watched
  if (watch !== undefined) watch.isPaused = true
}

/** After the frame that the pause has made long. */
function resumeWatching(): Promise<void> {
  return new Promise((resolve) => {
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        const { watch } = globalThis as Watched
        if (watch !== undefined) watch.isPaused = false
        resolve()
      }),
    )
  })
}

function readWatch(): Watch {
  const { frames = {}, tasks = [] } = (globalThis as Watched).watch ?? {}
  return { frames, tasks }
}
