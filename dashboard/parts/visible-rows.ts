/** Which rows of a long list are in the document: those in view and a few around them. Pure but for the hook. */
import { useEffect, useRef, useState } from 'hono/jsx/dom'

/** Rows above and below the view, so that a fast scroll meets no gap. */
export const ROWS_AROUND = 12
/** The list is rendered again after a scroll of so many rows. */
const STEP_ROWS = 6

export function visibleRange(
  scrolled_px: number,
  view_px: number,
  row_px: number,
  rows: number,
): { from: number; to: number } {
  const from = Math.max(0, Math.floor(scrolled_px / row_px) - ROWS_AROUND)
  const to = Math.min(rows, Math.ceil((scrolled_px + view_px) / row_px) + ROWS_AROUND)
  return { from: Math.min(from, to), to }
}

/** The list scrolls with the page, so the view is the window's. */
export function useVisibleRows(rows: number, row_px: number) {
  const list = useRef<HTMLTableSectionElement>(null)
  const [place, setPlace] = useState({ scrolled_px: 0, view_px: 800 })
  useEffect(() => {
    let frame = 0
    const look = () => {
      frame = 0
      const top = list.current?.getBoundingClientRect().top ?? 0
      const step_px = STEP_ROWS * row_px
      const scrolled_px = Math.floor(Math.max(0, -top) / step_px) * step_px
      const view_px = innerHeight
      setPlace((last) =>
        last.scrolled_px === scrolled_px && last.view_px === view_px ? last : { scrolled_px, view_px },
      )
    }
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(look)
    }
    look()
    addEventListener('scroll', soon, { passive: true })
    addEventListener('resize', soon)
    return () => {
      cancelAnimationFrame(frame)
      removeEventListener('scroll', soon)
      removeEventListener('resize', soon)
    }
  }, [row_px])
  return { list, ...visibleRange(place.scrolled_px, place.view_px, row_px, rows) }
}
