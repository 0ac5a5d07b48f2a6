/** The parts of Markdown that checks and the site need: text outside of code, links, headings and their anchors. */

export interface Link {
  /** Without the anchor; empty for one within the page. */
  target: string
  anchor: string | null
  line: number
}

const LINK = /\]\(([^)\s]+)\)/g

/** Fenced code, also indented, becomes empty lines. */
export function withoutFences(markdown: string): string {
  let fence: string | null = null
  return markdown
    .split('\n')
    .map((line) => {
      const mark = /^\s*(```+|~~~+)/.exec(line)?.[1] ?? null
      if (fence === null && mark !== null) {
        fence = mark
        return ''
      }
      if (fence === null) return line
      if (mark?.startsWith(fence)) fence = null
      return ''
    })
    .join('\n')
}

/** Links to files of this repository, images included. */
export function fileLinks(markdown: string): Link[] {
  return withoutFences(markdown)
    .split('\n')
    .flatMap((text, index) =>
      [...text.replaceAll(/`[^`]*`/g, '').matchAll(LINK)]
        .map(([, url = '']) => url)
        .filter((url) => !/^[a-z]+:/i.test(url))
        .map((url) => {
          const [target = '', anchor = null] = url.split('#')
          return { target, anchor, line: index + 1 }
        }),
    )
}

/** The anchors of a page's headings, as GitHub and the site name them. */
export function anchorsOf(markdown: string): Set<string> {
  const seen = new Map<string, number>()
  const anchors = new Set<string>()
  for (const [, heading = ''] of withoutFences(markdown).matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = slugOf(heading)
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  return anchors
}

function slugOf(heading: string): string {
  return heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-')
}
