/** Pages, links and anchors of the documentation, as they are in the repository. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../testbed/repository.ts'
import { anchorsOf, fileLinks } from './markdown.ts'
import { allPages, sections } from './pages.ts'
import { siteSource } from './site-source.ts'

const pages = allPages()
const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')

test('every page is reachable from the navigation, once', () => {
  const reachable = sections().flatMap((section) => section.pages)
  expect(reachable.toSorted()).toEqual(pages)
  expect(sections()[0]?.pages[0]).toBe('README.md')
})

test('a page that no section names comes last', () => {
  expect(sections([...pages, 'docs/zz-new.md']).at(-1)?.pages).toContain('docs/zz-new.md')
})

test.each(pages)('every link of %s leads to a file and a heading', (page) => {
  for (const { target, anchor, line } of fileLinks(read(page))) {
    const file = target === '' ? page : path.posix.normalize(path.posix.join(path.posix.dirname(page), target))
    const where = `${page}:${line}: ${target}#${anchor ?? ''}`
    // Built by `npm run docs`.
    if (file === 'docs/evaluation/index.html') continue
    expect(existsSync(path.join(ROOT, file)), where).toBe(true)
    if (anchor !== null && file.endsWith('.md')) expect(anchorsOf(read(file)), where).toContain(anchor)
  }
})

test('links out of the site become text, code stays, and lists and tables begin after an empty line', () => {
  const source =
    'See [a](b.md) and [code](../src/x.ts).\n- one\n- two\n  more\n- three\n\n```\n[x](y.ts)\n- z\n```\nA table\n| a |\n|---|'
  expect(siteSource('docs/p.md', source, (file) => file === 'docs/b.md')).toBe(
    'See [a](b.md) and code.\n\n- one\n- two\n  more\n- three\n\n```\n[x](y.ts)\n- z\n```\nA table\n\n| a |\n|---|',
  )
})
