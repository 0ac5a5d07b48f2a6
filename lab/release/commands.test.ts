import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../testbed/repository.ts'
import { COVERAGE } from './commands.ts'

const { scripts } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
}
const CHECK = 'release-check'

test('the release check knows every command of package.json, and no other', () => {
  const commands = Object.keys(scripts).filter((name) => name !== CHECK)
  expect(Object.keys(COVERAGE).sort()).toEqual(commands.sort())
})

test('every command that the documentation names exists', () => {
  const guides = readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md'))
  const files = ['README.md', 'CONTRIBUTING.md', ...guides.map((name) => `docs/${name}`)]
  const named = files.flatMap((file) => [
    ...readFileSync(path.join(ROOT, file), 'utf8').matchAll(/npm run ([a-z][\w:-]*)/g),
  ])
  expect(named.length).toBeGreaterThan(50)
  for (const [text, name = ''] of named) expect(Object.keys(scripts), text).toContain(name)
})
