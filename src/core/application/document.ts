/** Texts cut into chunks, at the end of a paragraph, a line or a word where there is one in the second half of a chunk. */

const BREAKS = ['\n\n', '\n', ' ']

/** No chunk has more than `chars_max` characters (UTF-16 units), and together they are the text. */
export function chunksOf(text: string, chars_max: number): string[] {
  const chunks: string[] = []
  for (let from = 0; from < text.length; ) {
    const to = text.length - from <= chars_max ? text.length : from + cutAt(text.slice(from, from + chars_max))
    chunks.push(text.slice(from, to))
    from = to
  }
  return chunks
}

function cutAt(window: string): number {
  for (const one of BREAKS) {
    const at = window.lastIndexOf(one)
    if (at >= window.length / 2) return at + one.length
  }
  // Two halves of one character stay together.
  const last = window.charCodeAt(window.length - 1)
  return last >= 0xd800 && last < 0xdc00 ? window.length - 1 : window.length
}
