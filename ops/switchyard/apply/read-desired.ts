/** Reads a file of `switchyard apply`. What is wrong is told with its line, never with a value that may be a secret. */
import { isMap, isScalar, LineCounter, type Node, parseDocument } from 'yaml'
import type { z } from 'zod'
import { Desired } from './desired.ts'

/** Far more than a fleet's configuration takes. */
export const FILE_CHARS_MAX = 1024 * 1024
const FAULTS_TOLD_MAX = 10
const SECRET = /\b(sk-sy|sya|sy-admin)-[0-9A-Za-z]{20,}/
const LISTS = ['regions', 'models', 'agents', 'tenants'] as const

export type Read = { status: 'read'; desired: Desired } | { status: 'wrong'; faults: readonly string[] }

type Path = readonly PropertyKey[]

export function readDesired(text: string, file: string): Read {
  const wrong = (...faults: string[]): Read => ({ status: 'wrong', faults: faults.slice(0, FAULTS_TOLD_MAX) })
  if (text.length > FILE_CHARS_MAX) return wrong(`${file} has more than ${FILE_CHARS_MAX} characters`)
  const secret_line = text.split('\n').findIndex((line) => SECRET.test(line))
  if (secret_line >= 0) {
    return wrong(
      `${file}:${secret_line + 1}: this is a key or a token. The file holds none: new ones are made and shown once`,
    )
  }
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const lineAt = (offset: number): number => lines.linePos(offset).line
  const [broken] = document.errors
  if (broken !== undefined) return wrong(`${file}:${lineAt(broken.pos[0])}: ${broken.message}`)
  const parsed = Desired.safeParse(document.toJS() ?? {})
  const at = (path: Path, key: PropertyKey | null = null) => lineAt(offsetOf(document.contents, path, key))
  if (!parsed.success) return wrong(...parsed.error.issues.flatMap((issue) => faultsOf(issue, file, at)))
  const twice = repeated(parsed.data).map(({ path, what }) => `${file}:${at(path)}: ${what} is named twice`)
  return twice.length > 0 ? wrong(...twice) : { status: 'read', desired: parsed.data }
}

function faultsOf(
  issue: z.core.$ZodIssue,
  file: string,
  at: (path: Path, key?: PropertyKey | null) => number,
): string[] {
  const place = nameOf(issue.path)
  if (issue.code === 'unrecognized_keys') {
    const where = place === '' ? 'the file' : place
    return issue.keys.map((key) => `${file}:${at(issue.path, key)}: ${where} has no field "${key}"`)
  }
  const missing = /received undefined$/.test(issue.message)
  if (missing) return [`${file}:${at(issue.path.slice(0, -1))}: ${place} is missing`]
  return [`${file}:${at(issue.path)}: ${place === '' ? 'the file' : place}: ${issue.message}`]
}

/** `tenants[0].keys[1].models` */
function nameOf(path: Path): string {
  return path.reduce<string>((name, part) => {
    if (typeof part === 'number') return `${name}[${part}]`
    return name === '' ? String(part) : `${name}.${String(part)}`
  }, '')
}

/** Where the value at `path` begins, or its field `key`. Of a path that is not there: what is there of it. */
function offsetOf(root: unknown, path: Path, key: PropertyKey | null): number {
  let node = root as Node | null
  for (const part of path) {
    const next = isMap(node) || (node !== null && 'get' in (node as object)) ? childOf(node, part) : null
    if (next === null) break
    node = next
  }
  if (key !== null && isMap(node)) {
    const pair = node.items.find((item) => isScalar(item.key) && item.key.value === key)
    if (pair !== undefined) return (pair.key as Node).range?.[0] ?? 0
  }
  return node?.range?.[0] ?? 0
}

function childOf(node: unknown, part: PropertyKey): Node | null {
  const found = (node as { get(key: unknown, keepScalar: true): unknown }).get(part, true)
  return found === undefined ? null : (found as Node)
}

function repeated(desired: Desired): { path: Path; what: string }[] {
  const twice: { path: Path; what: string }[] = []
  const look = (list: readonly { name: string }[], path: Path, kind: string): void => {
    const seen = new Set<string>()
    for (const [index, { name }] of list.entries()) {
      if (seen.has(name)) twice.push({ path: [...path, index], what: `${kind} "${name}"` })
      seen.add(name)
    }
  }
  for (const kind of LISTS) {
    look(
      (desired[kind] ?? []).map(({ id }) => ({ name: id })),
      [kind],
      kind.slice(0, -1),
    )
  }
  for (const [index, { keys = [] }] of (desired.tenants ?? []).entries()) {
    look(keys, ['tenants', index, 'keys'], 'key')
  }
  return twice
}
