/** Something that may be wider than the window, and then scrolls by itself, with the keyboard too. */
import type { Child } from 'hono/jsx/dom'

export function Wide({ label, children }: { label: string; children: Child }) {
  return (
    <section class="scroll" aria-label={label} tabindex={0}>
      {children}
    </section>
  )
}
