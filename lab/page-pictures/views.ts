/** The views of the page, and when each one shows all that it has. */
import type { Page } from 'playwright-core'

export interface View {
  name: string
  hash: string
  /** Waits until it is whole. */
  ready: (page: Page) => Promise<void>
  /** As high as its content, and not as a window. */
  isWhole?: boolean
}

const chart = (page: Page): Promise<void> => page.locator('.chart canvas').first().waitFor()
const timeline = (page: Page): Promise<void> => page.locator('.timeline rect').first().waitFor()
const row = (page: Page): Promise<void> => page.getByRole('row').nth(1).waitFor()

export const VIEWS: readonly View[] = [
  { name: 'live', hash: '#/live', ready: row },
  {
    name: 'program',
    hash: '#/programs/local/survey',
    isWhole: true,
    ready: async (page) => {
      await timeline(page)
      await page.locator('.graph .node').first().waitFor()
      await page.getByRole('button', { name: 'And under first come, first served?' }).click()
      await page.getByText(/calls would have waited/).waitFor()
    },
  },
  {
    name: 'weight',
    hash: '#/programs/local/refactor-1',
    ready: async (page) => {
      await timeline(page)
      await page.getByRole('button', { name: 'Change weight' }).first().click()
      await page.getByRole('dialog').getByLabel('Weight').waitFor()
    },
  },
  { name: 'ended', hash: '#/ended', ready: row },
  { name: 'trends', hash: '#/trends', ready: chart },
  {
    name: 'spend',
    hash: '#/spend',
    ready: async (page) => {
      await page.getByRole('combobox', { name: 'By' }).selectOption('class')
      await row(page)
    },
  },
  { name: 'applications', hash: '#/applications', ready: row },
  {
    name: 'application',
    hash: '#/applications/local/summaries',
    ready: (page) => page.getByRole('img', { name: 'When each node worked' }).waitFor(),
  },
  { name: 'engines', hash: '#/engines', ready: row },
  { name: 'tenants', hash: '#/tenants', ready: row },
  { name: 'classes', hash: '#/classes', ready: row },
  { name: 'class', hash: '#/classes/local/app%3Aanswers', ready: chart },
  {
    name: 'capacity',
    hash: '#/capacity',
    ready: async (page) => {
      await page.getByLabel('Unit').selectOption('program_s')
      await page.locator('[name=at_most]').fill('20')
      await page.getByRole('button', { name: 'Plan' }).click()
      await chart(page)
    },
  },
  { name: 'audit', hash: '#/audit', ready: row },
  {
    name: 'reference',
    hash: `#/reference/${encodeURIComponent('GET /v1/programs/{id}/calls')}`,
    ready: (page) => page.getByRole('heading', { name: 'GET /v1/programs/{id}/calls' }).waitFor(),
  },
]

/** In docs/page: every view on a desktop in light, and these. */
export const PHONE = 'phone'
export const DARK = 'live-dark'
