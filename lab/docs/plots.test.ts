/** Each plot of the documentation says what it shows to a person who does not see it. */
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { ROOT } from '../testbed/repository.ts'

const PLOTS_MIN = 100

it('has a title in every SVG', () => {
  const plots = globSync('docs/**/*.svg', { cwd: ROOT })
  expect(plots.length).toBeGreaterThan(PLOTS_MIN)
  const untitled = plots.filter(
    (file) => !/<title[^>]*>[^<]+<\/title>/.test(readFileSync(path.join(ROOT, file), 'utf8')),
  )
  expect(untitled).toEqual([])
})
