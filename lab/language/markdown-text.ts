/** The prose of a Markdown page: a paragraph, an item of a list or a cell of a table at a time. Code counts as one word. */
import { withoutFences } from '../docs-site/markdown.ts'

export interface Prose {
  text: string
  /** Where it begins, from 1. */
  line: number
  /** A cell of a table, which may be a list. */
  cell?: true
}

const ITEM = /^\s*(?:[-*]|\d+\.) /
const HEADING = /^#{1,6} /

export function proseOf(markdown: string): Prose[] {
  const lines = withoutFences(
    markdown.replaceAll(/<!--[\s\S]*?-->/g, (comment) => comment.replaceAll(/[^\n]/g, '')),
  ).split('\n')
  const found: Prose[] = []
  let open: Prose | null = null
  const close = () => {
    if (open !== null) found.push(open)
    open = null
  }
  for (const [index, line] of lines.entries()) {
    const at = index + 1
    if (line.trim() === '' || (open === null && /^ {4}/.test(line)) || /^\s*[-:| ]+$/.test(line)) close()
    else if (line.trimStart().startsWith('|')) {
      close()
      for (const cell of cellsOf(line)) found.push({ text: cell, line: at, cell: true })
    } else if (ITEM.test(line) || HEADING.test(line) || open === null) {
      close()
      open = { text: line.replace(ITEM, '').replace(HEADING, ''), line: at }
      if (HEADING.test(line)) close()
    } else open.text += ` ${line.trim()}`
  }
  close()
  return found.map((prose) => ({ ...prose, text: plain(prose.text) })).filter(({ text }) => text !== '')
}

/** A bar within code is no border. */
function cellsOf(line: string): string[] {
  return line
    .replaceAll(/`[^`]*`/g, (code) => code.replaceAll('|', '/'))
    .replaceAll('\\|', '/')
    .split('|')
    .map((cell) => cell.trim())
    .filter((cell) => cell !== '')
}

function plain(text: string): string {
  return text
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/!?\[((?:[^[\]]|\[[^\]]*\])*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[*_]{2}|(?<=\s|^)[*_](?=\S)|(?<=\S)[*_](?=\s|[.,;:)]|$)/g, '')
    .trim()
}
