/** A table with its heads. It scrolls by itself where it is wider than the window. */
import type { Child } from 'hono/jsx/dom'
import { Wide } from './wide.tsx'

/** A head, or one with a class: `number` stands at the right. */
export type Head = string | readonly [name: string, className: string]

export function Heads({ heads }: { heads: readonly Head[] }) {
  return (
    <thead>
      <tr>
        {heads.map((head) => {
          const [name, className] = typeof head === 'string' ? [head, ''] : head
          return (
            <th key={name} scope="col" class={className}>
              {name}
            </th>
          )
        })}
      </tr>
    </thead>
  )
}

export function Table({ label, heads, children }: { label: string; heads: readonly Head[]; children: Child }) {
  return (
    <Wide label={label}>
      <table>
        <Heads heads={heads} />
        <tbody>{children}</tbody>
      </table>
    </Wide>
  )
}

export function Num({ children }: { children: Child }) {
  return <td class="number">{children}</td>
}
