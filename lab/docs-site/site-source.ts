/**
 * A page of the repository as the generator takes it. Pages keep their places relative to each other, so links between them
 * stay as they are. Links to files that the site does not have become plain text. Python's Markdown wants an empty line
 * before a list or a table, which GitHub's does not.
 */
import path from 'node:path'
import { withoutFences } from './markdown.ts'

const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)/g
const BLOCK_START = /^(\s*)([-*] |\d+\. |\|)/

/** `has`: whether the site has a file, by its path in the repository. */
export function siteSource(file: string, markdown: string, has: (file: string) => boolean): string {
  const outside = withoutFences(markdown).split('\n')
  const lines = markdown.split('\n').map((line, index) => (outside[index] === line ? linked(file, line, has) : line))
  return lines.flatMap((line, index) => (needsGap(outside, index) ? ['', line] : [line])).join('\n')
}

function linked(file: string, line: string, has: (file: string) => boolean): string {
  return line.replaceAll(LINK, (whole: string, image: string, text: string, target: string) => {
    if (/^[a-z]+:/i.test(target)) return whole
    const place = path.posix.normalize(path.posix.join(path.posix.dirname(file), target))
    return has(place) ? whole : `${image === '' ? text : ''}`
  })
}

function needsGap(lines: readonly string[], index: number): boolean {
  const [line = '', before = ''] = [lines[index], lines[index - 1]]
  const start = BLOCK_START.exec(line)
  if (start === null || before.trim() === '') return false
  const previous = BLOCK_START.exec(before)
  // Within a list or a table, or below a line of an item.
  if (previous !== null) return false
  return start[1] === '' && !/^\s/.test(before)
}
