/**
 * The documentation as it is built, in a real Chromium: every page opens on a desk and on a phone without an error and without
 * scrolling sideways, every link and picture of it leads somewhere, and the search finds a word.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { buildSite } from '../../lab/docs-site/build.ts'
import { type ServedFolder, serveFolder } from '../../lab/docs-site/serve-folder.ts'
import { startChromium } from '../../lab/testbed/chromium.ts'

const WIDTHS_PX = { desk: 1280, phone: 390 }
/** Room for what the browser rounds. */
const OVERFLOW_PX_MAX = 1

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-docs-'))
let browser: Browser
let site: ServedFolder
let pages: string[]

beforeAll(async () => {
  const built = await buildSite(path.join(folder, 'docs'))
  if (!built.ok) throw new Error(built.reason)
  pages = (readdirSync(built.folder, { recursive: true }) as string[])
    .filter((file) => file.endsWith('.html') && file !== '404.html')
    .sort()
  site = await serveFolder(built.folder)
  browser = await startChromium()
})
afterAll(async () => {
  await browser?.close()
  site?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** What a page says about itself: its width, and where its links and pictures lead. */
function described(page: Page) {
  return page.evaluate(() => ({
    width: document.documentElement.scrollWidth,
    anchors: [...document.querySelectorAll('[id]')].map(({ id }) => id),
    links: [...document.querySelectorAll<HTMLAnchorElement>('a[href]')].map(({ href }) => href),
    broken: [...document.images].filter((image) => image.complete && image.naturalWidth === 0).map(({ src }) => src),
  }))
}

it('opens every page on a desk and on a phone, and every link leads to a page and a heading', async () => {
  expect(pages.length).toBeGreaterThan(30)
  const faults: string[] = []
  const anchors = new Map<string, ReadonlySet<string>>()
  const links: { from: string; to: URL }[] = []
  for (const [device, width] of Object.entries(WIDTHS_PX)) {
    const page = await browser.newPage({ viewport: { width, height: 900 } })
    let at = ''
    page.on('pageerror', (error) => faults.push(`${at} (${device}): ${error.message}`))
    page.on('response', (response) => {
      if (response.status() >= 400) faults.push(`${at} (${device}): ${response.status()} ${response.url()}`)
    })
    page.on('request', (request) => {
      const { protocol, host } = new URL(request.url())
      if (protocol.startsWith('http') && host !== new URL(site.url).host)
        faults.push(`${at}: asks ${host}, so it needs a network`)
    })
    for (at of pages) {
      await page.goto(`${site.url}/${at}`)
      const found = await described(page)
      if (found.width > width + OVERFLOW_PX_MAX) faults.push(`${at} (${device}): ${found.width} px wide`)
      for (const src of found.broken) faults.push(`${at} (${device}): no picture at ${src}`)
      anchors.set(`/${at}`, new Set(found.anchors))
      links.push(...found.links.map((href) => ({ from: at, to: new URL(href) })))
    }
    await page.close()
  }
  for (const { from, to } of links) {
    if (to.host !== new URL(site.url).host) continue
    const target = to.pathname.endsWith('/') ? `${to.pathname}index.html` : to.pathname
    const known = anchors.get(target)
    if (known === undefined) {
      if (target.endsWith('.html')) faults.push(`${from}: ${to.pathname} is no page`)
    } else if (to.hash !== '' && !known.has(decodeURIComponent(to.hash.slice(1))))
      faults.push(`${from}: ${to.pathname} has no ${to.hash}`)
  }
  expect([...new Set(faults)]).toEqual([])
})

it('finds a word, and opens the page that has it', async () => {
  const page = await browser.newPage({ viewport: { width: WIDTHS_PX.desk, height: 900 } })
  await page.goto(site.url)
  await page.locator('.md-search__input').click()
  await page.locator('.md-search__input').pressSequentially('tenant_budget_exceeded')
  const result = page.locator('.md-search-result__link').first()
  await result.waitFor()
  await result.click()
  await page.waitForURL(({ pathname }) => pathname.endsWith('.html'))
  expect(await page.locator('article').innerText()).toContain('tenant_budget_exceeded')
  await page.close()
})
