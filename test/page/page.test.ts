/**
 * The page in a real Chromium against a running system: a program from its first call to its end, ending one, a tenant's
 * sign-in, names that try to be HTML, a lost connection, and what axe finds.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startChromium } from '../../lab/testbed/chromium.ts'
import { eventually, System } from '../system/support/system.ts'

const HOSTILE = '<img src=x onerror=hacked=1>'
const HOSTILE_APP = '"><script>hacked=1</script>'
const TOOL = 'search'
const LONG = 'word '.repeat(60_000)
const ANSWERS = [
  { when: { last: 'long' }, text: LONG },
  { when: { turn: 1, tool: TOOL }, text: HOSTILE, calls: [{ name: TOOL, arguments: { q: HOSTILE } }] },
  { when: { role: 'tool' }, text: HOSTILE },
  { text: HOSTILE },
]
const SEEN_MS = 30_000
const APPLICATION = 'shown'

let folder: string
let system: System
let browser: Browser
/** Of all pages: nothing may be refused by the policy, and no script may fail. */
const faults: string[] = []

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-page-'))
  const script = path.join(folder, 'answers.json')
  writeFileSync(script, JSON.stringify({ answers: ANSWERS }))
  browser = await startChromium()
  system = await System.start({ engine: 'scripted', flags: ['--script', script, '--regions', 'us-east'] })
})
afterAll(async () => {
  await browser.close()
  await system.remove()
  rmSync(folder, { recursive: true })
})

async function open(key: string | null, hash = '', options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
  const page = await browser.newPage(options)
  page.setDefaultTimeout(SEEN_MS)
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('Failed to load resource')) faults.push(message.text())
  })
  await page.goto(`${system.dev.url}/${hash}`)
  if (key === null) return page
  await page.getByLabel('Key').fill(key)
  await page.getByLabel('Key').press('Enter')
  await page.getByText('live', { exact: true }).waitFor()
  return page
}

interface Message {
  role: string
  content?: string
  tool_call_id?: string
  tool_calls?: object[]
}

const tools = [{ type: 'function', function: { name: TOOL, parameters: { type: 'object', properties: {} } } }]

function call(program: string, messages: Message[], extra: object = {}, apiKey?: string): Promise<Response> {
  return system.fetch('/v1/chat/completions', {
    method: 'POST',
    ...(apiKey === undefined ? {} : { apiKey }),
    headers: { 'X-Program-Id': program, 'X-App': HOSTILE_APP },
    body: JSON.stringify({ model: system.dev.model, messages, max_tokens: 60_000, ...extra }),
  })
}

async function hacked(page: Page): Promise<unknown> {
  return page.evaluate(() => (globalThis as { hacked?: unknown }).hacked ?? null)
}

it('a first visit says what to run, and a program is shown from its first call to its end', async () => {
  const page = await open(system.dev.adminKey)
  await page.getByText('npm run demo').waitFor()
  const question: Message = { role: 'user', content: 'go' }
  const first = (await (await call(HOSTILE, [question], { tools })).json()) as {
    choices: { message: Message & { tool_calls: { id: string }[] } }[]
  }
  const row = page.getByRole('row').filter({ hasText: HOSTILE })
  await row.getByText(`acting: ${TOOL}`).waitFor()
  expect(await row.textContent()).toContain(HOSTILE_APP)
  await row.getByRole('link').press('Enter')
  await page.getByRole('button', { name: /^Call 1 .*s$/ }).waitFor()
  const message = first.choices[0]?.message
  const answer = { role: 'tool', tool_call_id: message?.tool_calls[0]?.id ?? '', content: 'found' }
  await (await call(HOSTILE, [question, { ...message, role: 'assistant' }, answer], { tools })).text()
  await page.getByRole('button', { name: /^Call 2 .*s$/ }).waitFor()
  const table = page.getByRole('region', { name: 'Calls', exact: true })
  await table
    .getByText(/us-east-1-e0/)
    .first()
    .waitFor()
  expect(await table.textContent()).toContain(TOOL)
  await page.getByRole('img', { name: 'Timeline of 2 calls' }).waitFor()
  await page.locator('.timeline rect.tool').hover()
  await page.locator('.timeline').getByText(`${TOOL}: `).waitFor()
  await page.getByRole('button', { name: 'And under first come, first served?' }).click()
  await page.getByText(/2 calls would have waited (about|at least) .* instead of/).waitFor()
  const ended = await system.fetch(`/v1/programs/${encodeURIComponent(HOSTILE)}`, { method: 'DELETE' })
  expect(ended.status).toBe(200)
  await page.getByText('ended, explicit').waitFor()
  await page.getByRole('link', { name: 'Live' }).click()
  await row.waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'Ended' }).click()
  await page.getByRole('link', { name: HOSTILE }).waitFor()
  await page.getByRole('link', { name: 'Trends' }).click()
  await page.getByRole('region', { name: 'Trends' }).getByRole('row').nth(1).waitFor()
  await page.locator('.chart canvas').waitFor()
  expect(await hacked(page)).toBeNull()
  await page.close()
})

it('changes what a program weighs after a second click, audited', async () => {
  await (await call('weighed', [{ role: 'user', content: 'go' }])).text()
  const page = await open(system.dev.adminKey, '#/programs/local/weighed')
  await page.getByRole('button', { name: 'Change weight' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Weight').fill('101')
  await dialog.getByRole('button', { name: 'Change weight' }).click()
  await page.getByText('Not changed: a weight is a number from 0.01 to 100.').waitFor()
  await page.getByRole('button', { name: 'Change weight' }).click()
  await dialog.getByLabel('Weight').fill('2.5')
  await dialog.getByRole('button', { name: 'Change weight' }).click()
  await page.getByText('It weighs 2.5 from its next call on.').waitFor()
  await page.getByText(', weight 2.5').waitFor()
  expect((await (await system.fetch('/v1/programs/weighed')).json()) as object).toMatchObject({ weight: 2.5 })
  await page.getByRole('link', { name: 'Live' }).click()
  await page
    .getByRole('row')
    .filter({ hasText: 'weighed' })
    .getByText(/^Q\d+, by service/)
    .waitFor()
  await page.getByRole('link', { name: 'Audit' }).click()
  await page.getByRole('row').filter({ hasText: 'program.weight' }).getByText('program:local/weighed').waitFor()
  await page.close()
})

it('ends a program after a second click, and its client gets the error', async () => {
  const stream = await call('long-one', [{ role: 'user', content: 'long' }], { stream: true })
  const text = stream.text()
  const page = await open(system.dev.adminKey, '#/programs/local/long-one')
  await page.getByRole('button', { name: 'End program' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  expect((await (await system.fetch('/v1/programs/long-one')).json()) as object).toMatchObject({ state: 'running' })
  await page.getByRole('button', { name: 'End program' }).first().click()
  await dialog.getByRole('button', { name: 'End program' }).click()
  await page.getByText('ended, explicit').waitFor()
  expect(await text).toContain('program_ended')
  await page.getByRole('link', { name: 'Audit' }).click()
  await page.getByText('program:local/long-one').waitFor()
  await page.close()
})

it('shows a tenant its own programs only, and no operator’s address', async () => {
  await (await call('of-local', [{ role: 'user', content: 'go' }])).text()
  const { apiKey } = await system.createTenant('Other')
  await (await call('of-other', [{ role: 'user', content: 'go' }], {}, apiKey)).text()
  const page = await open(apiKey, '#/tenants')
  await page.getByRole('link', { name: 'of-other' }).waitFor()
  expect(await page.getByText('of-local').count()).toBe(0)
  expect(await page.getByRole('navigation').getByRole('link').allTextContents()).toEqual([
    ...['Live', 'Ended', 'Trends', 'Spend', 'Applications', 'Capacity', 'API'],
  ])
  const statuses = await page.evaluate(async () => {
    const ask = async (path: string) => (await fetch(path, { headers: { 'x-switchyard-page': '1' } })).status
    const operator = ['/admin/v1/tenants', '/admin/v1/audit', '/admin/v1/tenants/local/programs']
    const others = ['/admin/v1/tenants/local/trends', '/admin/v1/tenants/local/applications']
    const paths = [...operator, ...others, '/v1/programs/of-local', '/v1/programs/of-local/fcfs']
    return Promise.all(paths.map(ask))
  })
  expect(statuses).toEqual([401, 401, 401, 401, 401, 404, 404])
  expect(await page.evaluate(() => document.cookie)).toBe('')
  await page.goto(`${system.dev.url}/#/programs/local/of-local`)
  await page.getByText('There is no program "of-local".').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key').waitFor()
  await page.close()
})

it('shows what calls were charged, to the operator of every tenant and to a tenant of its own', async () => {
  const prices = { prompt_price: 1, cached_prompt_price: 1, output_price: 2 }
  const priced = await fetch(`${system.dev.url}/admin/v1/models/${encodeURIComponent(system.dev.model)}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${system.dev.adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(prices),
  })
  expect(priced.status).toBe(200)
  const { tenant, apiKey } = await system.createTenant('Spending')
  // Isolates keep the catalogue for some seconds.
  await eventually('a call has cost something', async () => {
    await (await call('spent', [{ role: 'user', content: 'go' }], {}, apiKey)).text()
    const { data } = (await (await system.fetch('/v1/spend', { apiKey })).json()) as { data: { cost_nanos: number }[] }
    return (data[0]?.cost_nanos ?? 0) > 0 || undefined
  })
  const table = (page: Page) => page.getByRole('region', { name: 'Spend' })
  const operator = await open(system.dev.adminKey, '#/spend')
  await table(operator).getByRole('row').filter({ hasText: tenant }).waitFor()
  await operator.getByRole('combobox', { name: 'By' }).selectOption('model')
  await operator.getByRole('combobox', { name: 'Tenant' }).selectOption(tenant)
  await table(operator).getByRole('row').filter({ hasText: system.dev.model }).waitFor()
  await operator.getByRole('combobox', { name: 'Per' }).selectOption('month')
  const month = new Date().toISOString().slice(0, 7)
  await table(operator).getByRole('cell', { name: month, exact: true }).waitFor()
  await operator.close()
  const own = await open(apiKey, '#/spend')
  expect(await own.getByRole('combobox', { name: 'Tenant' }).count()).toBe(0)
  await table(own)
    .getByRole('rowheader')
    .filter({ hasText: /^key-[0-9a-f]{16}$/ })
    .waitFor()
  await own.getByRole('combobox', { name: 'By' }).selectOption('program')
  await table(own).getByRole('link', { name: 'spent' }).click()
  await own.getByRole('heading', { name: 'spent' }).waitFor()
  await own.close()
})

it('plans with what ended, in a thread of its own', async () => {
  const page = await open(system.dev.adminKey, '#/capacity')
  await page.getByLabel('Unit').selectOption('program_s')
  await page.locator('[name=at_most]').fill('100000')
  await page.getByRole('button', { name: 'Plan' }).click()
  await page.getByText(/^1 engine of a100-8b with plas and cost-aware meets a p95 of/).waitFor()
  await page.getByRole('img', { name: /95th percentile by number of engines/ }).waitFor()
  await page.close()
})

it('refuses a wrong key in words', async () => {
  const page = await open(null)
  await page.getByLabel('Key').fill('sk-sy-wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('This key is not valid.').waitFor()
  await page.close()
})

it('says when it is offline and since when, and is live again by itself', async () => {
  const page = await open(system.dev.adminKey)
  process.kill(system.dev.controlPlanePid, 'SIGKILL')
  await page.getByText(/offline: as of .*reconnecting/).waitFor()
  await page.getByText('live', { exact: true }).waitFor({ timeout: 90_000 })
  await page.getByRole('link', { name: 'of-local' }).waitFor()
  await page.close()
})

it('shows an application by name, with its chart and its nodes', async () => {
  const messages = [{ role: 'user', content: '{{question}}' }]
  const started = await system.fetch('/v1/applications', {
    method: 'POST',
    body: JSON.stringify({
      ...{ id: APPLICATION, name: HOSTILE },
      nodes: [{ id: 'ask', model: system.dev.model, requests: 'lines', body: { messages, max_tokens: 8 } }],
      input: { lines: [{ question: 'one' }, { question: 'two' }] },
    }),
  })
  expect([started.status, started.status === 200 ? '' : await started.text()]).toEqual([200, ''])
  const page = await open(system.dev.adminKey, '#/applications')
  await page.getByRole('link', { name: HOSTILE }).press('Enter')
  await page.getByRole('region', { name: 'Nodes' }).getByText('2 of 2').waitFor()
  await page.getByRole('img', { name: 'When each node worked' }).waitFor()
  expect(await hacked(page)).toBeNull()
  await page.close()
})

it('shows the reference of the API to anybody, from what the system says of itself', async () => {
  const page = await open(null, '#/reference')
  await page.getByLabel('Find').fill('fcfs')
  await page.getByRole('link', { name: 'GET /v1/programs/{id}/fcfs' }).press('Enter')
  await page.getByRole('heading', { name: 'GET /v1/programs/{id}/fcfs' }).waitFor()
  await page.getByRole('row').filter({ hasText: 'fcfs_wait_s' }).first().waitFor()
  await page.getByRole('link', { name: 'FcfsWaits' }).first().click()
  await page.getByRole('heading', { name: 'FcfsWaits' }).waitFor()
  await page.getByRole('link', { name: 'Sign in' }).click()
  await page.getByLabel('Key').waitFor()
  await page.close()
})

it('has nothing that axe finds, and nothing wider than a phone', async () => {
  const views = [
    ...[
      '#/live',
      '#/engines',
      '#/tenants',
      '#/classes',
      '#/audit',
      '#/ended',
      '#/trends',
      '#/spend',
      '#/applications',
      '#/capacity',
    ],
    ...[`#/applications/local/${APPLICATION}`, '#/programs/local/of-local', '#/reference'],
    ...['GET /v1/programs/{id}/calls', 'Program'].map((name) => `#/reference/${encodeURIComponent(name)}`),
  ]
  for (const colorScheme of ['light', 'dark'] as const) {
    const page = await open(system.dev.adminKey, '', { colorScheme, viewport: { width: 390, height: 844 } })
    // Before the page's own scripts, as the policy lets no script in later.
    await page.addInitScript({ content: axe.source })
    for (const view of views) {
      await page.goto(`${system.dev.url}/${view}`)
      await page.reload()
      await page.getByText('live', { exact: true }).waitFor()
      await page
        .getByText(/^Loading/)
        .first()
        .waitFor({ state: 'detached' })
      expect([view, colorScheme, await page.evaluate(violations)]).toEqual([view, colorScheme, []])
      const width = await page.evaluate(() => document.documentElement.scrollWidth)
      expect([view, width]).toEqual([view, 390])
    }
    await page.close()
  }
})

/** Runs in the page. */
async function violations(): Promise<string[]> {
  interface Found {
    violations: { id: string; nodes: { html: string }[] }[]
  }
  const page = globalThis as unknown as { axe: { run: () => Promise<Found> } }
  const found = await page.axe.run()
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)
}

it('had nothing refused by its policy, and no script failed', () => {
  expect(faults).toEqual([])
})
