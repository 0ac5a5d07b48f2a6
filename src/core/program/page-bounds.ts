/** Which calls of a run a page has, by their positions. */
import type { CallOrder } from './program-state.ts'

/** `after`: position of the last call of the page before. Null: this is the first page. `to` is not among them. */
export function pageBounds(
  order: CallOrder,
  after: number | null,
  limit: number,
  size: number,
): { from: number; to: number; is_last: boolean } {
  if (order === 'asc') {
    const from = after === null ? 0 : after + 1
    return { from, to: from + limit, is_last: from + limit >= size }
  }
  const to = after ?? size
  const from = Math.max(0, to - limit)
  return { from, to, is_last: from === 0 }
}
