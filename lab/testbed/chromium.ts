/** A real Chromium: the one of SWITCHYARD_CHROMIUM, of the machine, or of `npx playwright-core install chromium`. */
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

export const NO_CHROMIUM =
  'There is no Chromium for the page’s test. Install one with `npx playwright-core install chromium`, or name one in SWITCHYARD_CHROMIUM.'

export function chromiumPath(): string | null {
  const places = [process.env.SWITCHYARD_CHROMIUM ?? '', ...PLACES, chromium.executablePath()]
  return places.find((place) => place !== '' && existsSync(place)) ?? null
}

export async function startChromium() {
  const executablePath = chromiumPath()
  if (executablePath === null) throw new Error(NO_CHROMIUM)
  // Chromium's own sandbox does not work in containers, and the test loads nothing but our page.
  return chromium.launch({ executablePath, args: ['--no-sandbox'] })
}
