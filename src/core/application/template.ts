/**
 * Templates of calls: JSON whose strings have placeholders, `{{question}}` or `{{judge.output}}`. Braces around anything
 * else than a name are text, so that JSON in a prompt stays as it is. What is put in is never read for placeholders itself.
 */

const PLACEHOLDER = /\{\{\s*([\w.-]+)\s*\}\}/g

/** The names in its strings, each once, in the order in which they come. */
export function namesIn(template: unknown): string[] {
  const names = new Set<string>()
  const walk = (value: unknown): void => {
    if (typeof value === 'string') for (const [, name] of value.matchAll(PLACEHOLDER)) names.add(name ?? '')
    else if (Array.isArray(value)) value.forEach(walk)
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(walk)
  }
  walk(template)
  return [...names]
}

/** `valueNamed` is asked for each name that `namesIn` gives. Keys of objects are no templates. */
export function filled(template: unknown, valueNamed: (name: string) => string): unknown {
  if (typeof template === 'string') return template.replace(PLACEHOLDER, (_, name: string) => valueNamed(name))
  if (Array.isArray(template)) return template.map((item) => filled(item, valueNamed))
  if (typeof template !== 'object' || template === null) return template
  return Object.fromEntries(Object.entries(template).map(([key, value]) => [key, filled(value, valueNamed)]))
}

/** What its strings have beside placeholders, as bytes of UTF-8. */
export function textBytes(template: unknown): number {
  if (typeof template === 'string') return utf8Bytes(template.replace(PLACEHOLDER, ''))
  if (typeof template !== 'object' || template === null) return 0
  return Object.values(template).reduce((sum: number, value) => sum + textBytes(value), 0)
}

/** A field's value as text. Null: a value that is null or absent has none. */
export function textOf(value: unknown): string | null {
  if (value === undefined || value === null) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const encoder = new TextEncoder()

export function utf8Bytes(text: string): number {
  return encoder.encode(text).length
}
