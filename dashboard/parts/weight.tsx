/** Changes what a program weighs among those of its tenant. */
import { useState } from 'hono/jsx/dom'
import { PROGRAM_WEIGHT_MAX, PROGRAM_WEIGHT_MIN, ProgramWeight } from '../../src/protocol/program-weight.ts'
import { ShownProgram } from '../../src/protocol/shown-program.ts'
import { ask } from '../api.ts'
import { ConfirmedAction } from './confirm.tsx'

interface Weighed {
  program: ShownProgram
  /** Of the program in the API. */
  path: string
  done: () => void
}

export function WeightAction({ program, path, done }: Weighed) {
  const [text, setText] = useState(String(program.weight ?? 1))
  const act = async () => {
    const weight = ProgramWeight.safeParse(text.trim() === '' ? null : Number(text))
    if (!weight.success) return `Not changed: a weight is a number from ${PROGRAM_WEIGHT_MIN} to ${PROGRAM_WEIGHT_MAX}.`
    await ask(path, ShownProgram, { method: 'PATCH', body: { weight: weight.data } })
    done()
    return `It weighs ${weight.data} from its next call on.`
  }
  return (
    <ConfirmedAction
      name="Change weight"
      question={`What does ${program.id} weigh among the programs of its tenant? 1 is usual, and 2 halves its rank, so that it goes earlier.`}
      act={act}
    >
      <p>
        <label>
          Weight{' '}
          <input
            type="number"
            min={PROGRAM_WEIGHT_MIN}
            max={PROGRAM_WEIGHT_MAX}
            step="any"
            value={text}
            onInput={(e) => setText((e.target as HTMLInputElement).value)}
          />
        </label>
      </p>
    </ConfirmedAction>
  )
}
