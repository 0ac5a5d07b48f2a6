/** How deep JSON text nests, found out before it is parsed: parsers take any depth, but code that walks a value recurses. */

/** Levels of arrays and objects. Beyond them, code that copies or writes a value would overflow the stack. */
export const NESTING_MAX = 128

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** Looks at brackets outside of strings. On text that is not JSON the result does not matter, since parsing refuses it. */
export function nestsDeeperThan(text: string, levels_max: number): boolean {
  let levels = 0
  let isString = false
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charCodeAt(at)
    if (isString) {
      if (char === BACKSLASH) at += 1
      else if (char === QUOTE) isString = false
    } else if (char === QUOTE) isString = true
    else if (char === OPEN_BRACKET || char === OPEN_BRACE) {
      levels += 1
      if (levels > levels_max) return true
    } else if (char === CLOSE_BRACKET || char === CLOSE_BRACE) levels -= 1
  }
  return false
}
