/**
 * `npm run page:pictures`: the pictures of docs/page, taken in a real Chromium of a real system with scripted engines and agents
 * that work on it. With `--all DIR` each view is also taken on a desktop and on a phone, light and dark, to look at.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { fail, flagsOrExit } from '../cli/flags.ts'
import { agentIdOf } from '../ops/workerd/agent-ids.ts'
import { answer, edit, endless, survey } from './page-pictures/agents.ts'
import { ANSWERS } from './page-pictures/answers.ts'
import { DARK, PHONE, VIEWS, type View } from './page-pictures/views.ts'
import { chromiumPath, NO_CHROMIUM, startChromium } from './testbed/chromium.ts'
import { ROOT } from './testbed/repository.ts'
import { startTestbed } from './testbed/testbed.ts'

const HELP = `Takes the pictures of docs/page: starts a system with scripted engines, lets agents work on it, and looks at it in a
Chromium. About three minutes.

  npm run page:pictures -- [flags]

  --all DIR   each view on a desktop and on a phone, light and dark, into DIR instead
  --help

Needs Chromium or Chrome: that of the machine, of SWITCHYARD_CHROMIUM, or \`npx playwright-core install chromium\`.`

const REGIONS = ['us-east', 'eu-west'] as const
const MODEL = 'emulated-8b'
const DESKTOP = { width: 1180, height: 760 } as const
const SMALL = { width: 390, height: 844 } as const
/** The page asks a program anew after its last record. */
const SETTLE_MS = 3_000
const SEEN_MS = 120_000

const { all } = flagsOrExit('page:pictures', HELP, { all: { type: 'string' } })
if (chromiumPath() === null) fail(NO_CHROMIUM)

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-pictures-'))
const bed = await startTestbed({
  name: 'pictures',
  regions: REGIONS,
  model: MODEL,
  flags: { 'context-tokens': 32_768 },
})
try {
  await startEngines()
  await work()
  const browser = await startChromium()
  try {
    if (all === undefined) await intoDocs(browser)
    else await intoFolder(browser, path.resolve(all))
  } finally {
    await browser.close()
  }
} finally {
  await bed.remove()
  rmSync(folder, { recursive: true })
}

/** Few seats, so that calls wait and give their seats up. */
async function startEngines(): Promise<void> {
  const script = path.join(folder, 'answers.json')
  writeFileSync(script, JSON.stringify({ answers: ANSWERS }))
  const profile = 'emulated-8b'
  const flags = { engine: 'scripted', script, profile, policy: 'plas', seats: 3, slots: 6, 'context-tokens': 32_768 }
  await Promise.all(REGIONS.map((region) => bed.agent({ id: agentIdOf(region), region, flags }).start()))
}

async function work(): Promise<void> {
  await bed.setPrices({ prompt_price: 0.15, cached_prompt_price: 0.07, output_price: 0.6 })
  const { tenant, apiKey } = await bed.createTenant('Acme')
  const ended = Array.from({ length: 12 }, (_, n) => `question-${n}`)
  await Promise.all(ended.map((program) => answer(bed, program)))
  for (const program of ended) await ask(`/v1/programs/${program}`, { method: 'DELETE' })
  await startApplication()
  const running = [
    survey(bed, 'survey'),
    ...[1, 2, 3, 4, 5].map((n) => edit(bed, `refactor-${n}`, 2 + n)),
    ...Array.from({ length: 12 }, (_, n) => answer(bed, `answer-${n}`)),
    answer(bed, 'notes', apiKey),
  ]
  await Promise.all(running)
  await ask('/v1/programs/refactor-2', { method: 'PATCH', body: JSON.stringify({ weight: 2 }) })
  await ask(`/admin/v1/tenants/${tenant}`, { method: 'PATCH', body: JSON.stringify({ weight: 2 }) }, 'operator')
  for (const n of [1, 2, 3, 4]) endless(bed, `rewrite-${n}`)
}

async function startApplication(): Promise<void> {
  const messages = [{ role: 'user', content: '{{text}} [long]' }]
  const sum = [{ role: 'user', content: 'Sum up' }]
  const lines = Array.from({ length: 8 }, (_, n) => ({ text: `Text ${n}` }))
  await ask('/v1/applications', {
    method: 'POST',
    body: JSON.stringify({
      ...{ id: 'summaries', name: 'Nightly summaries' },
      nodes: [
        { id: 'draft', model: MODEL, requests: 'lines', body: { messages, max_tokens: 200 } },
        { id: 'title', model: MODEL, requests: 'lines', body: { messages: sum, max_tokens: 40 } },
      ],
      input: { lines },
    }),
  })
}

async function ask(route: string, init: RequestInit, as: 'tenant' | 'operator' = 'tenant'): Promise<void> {
  const apiKey = as === 'operator' ? bed.secrets.adminKey : bed.secrets.apiKey
  const response = await bed.fetch(route, { ...init, apiKey })
  if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`)
}

async function intoDocs(browser: Browser): Promise<void> {
  const docs = path.join(ROOT, 'docs/page')
  const page = await signIn(browser, {}, path.join(docs, 'sign-in.png'))
  for (const view of VIEWS) await take(page, view, path.join(docs, `${view.name}.png`))
  await page.close()
  const [live] = VIEWS
  if (live === undefined) return
  const phone = await signIn(browser, { viewport: SMALL })
  await take(phone, live, path.join(docs, `${PHONE}.png`))
  const dark = await signIn(browser, { colorScheme: 'dark' })
  await take(dark, live, path.join(docs, `${DARK}.png`))
}

async function intoFolder(browser: Browser, target: string): Promise<void> {
  mkdirSync(target, { recursive: true })
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const [size, viewport] of Object.entries({ desktop: DESKTOP, phone: SMALL })) {
      const end = `${size}-${colorScheme}.png`
      const page = await signIn(browser, { colorScheme, viewport }, path.join(target, `sign-in-${end}`))
      for (const view of VIEWS) await take(page, { ...view, isWhole: true }, path.join(target, `${view.name}-${end}`))
      await page.close()
    }
  }
}

type Look = NonNullable<Parameters<Browser['newPage']>[0]>

async function signIn(browser: Browser, look: Look, picture?: string): Promise<Page> {
  const page = await browser.newPage({ viewport: DESKTOP, colorScheme: 'light', ...look })
  page.setDefaultTimeout(SEEN_MS)
  await page.goto(bed.url)
  await page.getByLabel('Key').waitFor()
  if (picture !== undefined) await page.screenshot({ path: picture })
  await page.getByLabel('Key').fill(bed.secrets.adminKey)
  await page.getByLabel('Key').press('Enter')
  await page.getByText('live', { exact: true }).waitFor()
  return page
}

/** A picture of the whole page would have its sticky head in the middle. So the window is made as high as its content. */
async function take(page: Page, { name, hash, ready, isWhole = false }: View, file: string): Promise<void> {
  const window = page.viewportSize() ?? DESKTOP
  await page.goto(`${bed.url}/${hash}`)
  await page.reload()
  await page.getByText('live', { exact: true }).waitFor()
  await ready(page)
  await page.waitForTimeout(SETTLE_MS)
  if (isWhole) {
    const height = await page.evaluate(() => document.documentElement.scrollHeight)
    await page.setViewportSize({ ...window, height: Math.max(window.height, height) })
  }
  await page.screenshot({ path: file })
  await page.setViewportSize(window)
  console.log(`${name}: ${file}`)
}
