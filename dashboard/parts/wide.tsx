/** Something that may be wider than the window, and then scrolls by itself, with the keyboard too. */
import type { Child } from 'hono/jsx/dom'

interface WideProps {
  label: string
  children: Child
  /** Then it scrolls up and down, too. */
  isTall?: boolean
}

export function Wide({ label, children, isTall = false }: WideProps) {
  return (
    <section class={isTall ? 'scroll tall' : 'scroll'} aria-label={label} tabindex={0}>
      {children}
    </section>
  )
}
