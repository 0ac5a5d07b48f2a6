/** A page of rows that several shards of a tenant have, from each shard's page of as many rows. */
import { encodeCursor } from './cursor.ts'

/** `next`: the cursor of the next page. Null: there is none. */
interface ShardPage<Row> {
  rows: readonly Row[]
  next: string | null
}

interface PageOrder<Row> {
  /** Where a row stands: what a cursor has. */
  placeOf(row: Row): readonly (string | number)[]
  /** For each part of the place. */
  directions: readonly ('ascending' | 'descending')[]
  /** Adds a row to one of the same place. Left out: both are listed. */
  add?(to: Row, row: Row): void
}

/** Null: a shard did not take the cursor. */
export function joinedPage<Row extends object>(
  pages: readonly (ShardPage<Row> | null)[],
  limit: number,
  { placeOf, directions, add }: PageOrder<Row>,
): ShardPage<Row> | null {
  const rows: Row[] = []
  const places = new Map<string, Row>()
  let is_more = false
  for (const page of pages) {
    if (page === null) return null
    is_more ||= page.next !== null
    for (const row of page.rows) {
      const place = JSON.stringify(placeOf(row))
      const known = places.get(place)
      if (known !== undefined && add !== undefined) {
        add(known, row)
        continue
      }
      const copy = { ...row }
      places.set(place, copy)
      rows.push(copy)
    }
  }
  rows.sort((a, b) => {
    const [one, other] = [placeOf(a), placeOf(b)]
    for (const [i, direction] of directions.entries()) {
      const [mine, its] = [one[i] ?? '', other[i] ?? '']
      if (mine !== its) return mine < its === (direction === 'ascending') ? -1 : 1
    }
    return 0
  })
  const listed = rows.slice(0, limit)
  const last = listed.at(-1)
  is_more ||= rows.length > limit
  return { rows: listed, next: is_more && last !== undefined ? encodeCursor(placeOf(last)) : null }
}
