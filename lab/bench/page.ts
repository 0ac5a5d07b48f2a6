/**
 * `npm run bench:page`: the live page in a real Chromium with many programs that change all the time. The events come from a
 * server of this process, which sends what the Worker sends: one event a second with the rows that changed. So the figures are the
 * page's own: how long its frames and tasks take, and whether its memory grows.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { fail, flagsOrExit } from '../../cli/flags.ts'
import { chromiumPath, NO_CHROMIUM, startChromium } from '../testbed/chromium.ts'
import { LiveStandIn } from './page/live-stand-in.ts'
import { GOALS, type PageFigures, watchPage } from './page/watch-page.ts'

const HELP = `Shows a live page with many programs that change all the time in a real Chromium, scrolls it, and measures its frames,
its tasks and its memory. The events come from a stand-in for the Worker, so nothing else runs.

  npm run bench:page -- [flags]

  --minutes 10
  --programs 1000   live at a time; one that ends is replaced
  --changes 50      of them change each second
  --json FILE       all figures
  --help

Needs Chromium or Chrome: that of the machine, of SWITCHYARD_CHROMIUM, or \`npx playwright-core install chromium\`.
Goals: p95 frame ${GOALS.frame_p95_ms} ms, no task over ${GOALS.task_max_ms} ms, heap within ${GOALS.heap_growth_max} of its start. Exits 1 where one is missed.`

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:page', HELP, {
  ...{
    minutes: { ...TEXT, default: '10' },
    programs: { ...TEXT, default: '1000' },
    changes: { ...TEXT, default: '50' },
  },
  json: TEXT,
})
if (chromiumPath() === null) fail(NO_CHROMIUM)
const minutes = numberOf('minutes', 0.1, 600)
const programs = numberOf('programs', 1, 1_000)
const changes_per_s = numberOf('changes', 0, programs)

const source = await LiveStandIn.start({ programs, changes_per_s })
const browser = await startChromium()
let figures: PageFigures
try {
  figures = await watchPage(browser, source.url, { minutes, told: (line) => process.stderr.write(`${line}\n`) })
} finally {
  await browser.close()
  await source.stop()
}
const setting = { minutes, programs, changes_per_s, load_1min: loadavg()[0] ?? 0 }
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ ...setting, ...figures }, null, 1)}\n`)
const { frame_p50_ms, frame_p95_ms, frames, task_max_ms, tasks_over_50_ms, heap_bytes, heap_growth } = figures
const { main_thread_cpu, task_cpu_max_ms } = figures
const megabytes = heap_bytes.map((bytes) => (bytes / 1e6).toFixed(1)).join(', ')
console.log(
  `${programs} programs, ${changes_per_s} changes/s, ${minutes} minutes, load average ${setting.load_1min.toFixed(1)}`,
)
console.log(`frames: p50 ${frame_p50_ms.toFixed(1)} ms, p95 ${frame_p95_ms.toFixed(1)} ms of ${frames}`)
console.log(`tasks: longest ${task_max_ms.toFixed(0)} ms, ${tasks_over_50_ms} over 50 ms`)
console.log(`CPU: ${(100 * main_thread_cpu).toFixed(1)} % of a core, longest task ${task_cpu_max_ms.toFixed(1)} ms`)
console.log(`heap after a collection, MB: ${megabytes} (${heap_growth.toFixed(2)} of its start)`)
const missed = [
  ...(frame_p95_ms > GOALS.frame_p95_ms ? ['frame'] : []),
  ...(task_max_ms > GOALS.task_max_ms ? ['task'] : []),
  ...(heap_growth > GOALS.heap_growth_max ? ['heap'] : []),
]
console.log(missed.length === 0 ? 'All goals are met.' : `MISSED: ${missed.join(', ')}`)
if (missed.length > 0) process.exitCode = 1

function numberOf(name: 'minutes' | 'programs' | 'changes', least: number, most: number): number {
  const number = Number(values[name])
  return number >= least && number <= most ? number : fail(`--${name} takes a number from ${least} to ${most}`)
}
