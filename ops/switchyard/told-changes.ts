/** What `kill` and `nice` have changed, in one line for people. Scripts get the row. */
import { z } from 'zod'
import { ShownProgram } from '../../src/protocol/shown-program.ts'
import type { Row } from './client.ts'
import type { Answer } from './command.ts'
import { count } from './explain-program.ts'

const WeightedClass = z.object({ object: z.literal('class'), class: z.string(), weight: z.number() })

/** An end is asked for as often as one likes: the time is that of the first. */
export function toldEnded(row: Row): Answer {
  const { id, ended_at, calls } = ShownProgram.parse(row)
  const text = `Program ${id} ended at ${ended_at}, after ${count(calls, 'call')}. Calls that were open are cancelled.`
  return { kind: 'told', row, text }
}

export function toldWeight(row: Row): Answer {
  const of_class = WeightedClass.safeParse(row)
  if (of_class.success) {
    const { class: name, weight } = of_class.data
    const text = `Programs of class ${name} weigh ${weight} among the tenant’s own. Calls see it within 10 s.`
    return { kind: 'told', row, text }
  }
  const { id, weight } = ShownProgram.parse(row)
  const text = `Program ${id} weighs ${weight} among the tenant’s own programs, from its next call on.`
  return { kind: 'told', row, text }
}
