/**
 * What is held of programs whose tools run, and for how long, as lines of JSON that the Python side replays. `t` is the time in us.
 *   {"t", "ended":[program, tenant, class, buy_us]}   its call was answered; holding its context for buy_us costs as much as recomputing it
 *   {"t", "arrived":program}
 *   {"t", "lost":program}                              others took something of its context
 *   {"t", "expire":true}
 * and beside each, as it is then, "next" (the next expiry, null: none) and "counts":[contexts, begun, returned, given up, expired].
 */
import { buyUs, usualTime } from '../../gpu-agent/engine/memory/hold-time.ts'
import { PrefillSpeed } from '../../gpu-agent/engine/memory/prefill-speed.ts'
import { ProgramHold } from '../../gpu-agent/engine/memory/program-hold.ts'
import { ScheduledCall } from '../../gpu-agent/engine/scheduled-call.ts'
import { engineCall } from '../../gpu-agent/engine/testing/calls.ts'
import { generator } from './scenarios.ts'

export const HOLD_FILE = 'program-hold.jsonl'
const EVENTS = 3_000
const PROGRAMS = 24
const CLASSES = 3
const SIZES = { capacity_tokens: 4_000, slots: 8 }
const US_PER_TOKEN = 1_300
/** By class: how long its tools take, and how many of ten of its programs come back. */
const TOOLS = [
  { us: 90_000, back: 10 },
  { us: 700_000, back: 6 },
  { us: 9_000_000, back: 3 },
] as const

export function holdLines(): string {
  const below = generator(502)
  const speed = new PrefillSpeed(256)
  speed.computed(200, 1, 200 * US_PER_TOKEN)
  const hold = new ProgramHold(SIZES, speed, usualTime)
  /** By program: its last call while it is away, and when it comes back; Infinity: never. */
  const away = new Map<string, { call: ScheduledCall; back_us: number }>()
  const lines: string[] = []
  let t = 0
  const tell = (event: object) => {
    const { contexts, begun, returned, given_up, expired } = hold.counts
    const next = Number.isFinite(hold.next_expiry_us) ? hold.next_expiry_us : null
    lines.push(JSON.stringify({ t, ...event, next, counts: [contexts, begun, returned, given_up, expired] }))
  }
  for (let event = 0; event < EVENTS; event++) {
    t += below(150_000)
    const program = `p${below(PROGRAMS)}`
    const known = away.get(program)
    if (below(12) === 0) {
      hold.expire(t)
      tell({ expire: true })
    } else if (known !== undefined && below(8) === 0) {
      hold.lost(known.call)
      tell({ lost: program })
    } else if (known !== undefined && known.back_us > t) {
    } else if (known !== undefined) {
      away.delete(program)
      hold.arrived(known.call, t)
      tell({ arrived: program })
    } else {
      const of_class = below(CLASSES)
      const { us, back } = TOOLS[of_class] as (typeof TOOLS)[number]
      const [name, tenant] = [`c${of_class}`, `t${below(2)}`]
      const call = new ScheduledCall(
        engineCall({ lease: `${program}/${event}`, program, tenant, class: name, sequence: [1, 1] }),
        t,
      )
      const tokens = 1 + below(1_200)
      // Programs of one name come back at last: it stands for another one then.
      const stays_us = below(10) < back ? us / 2 + below(us) : 20_000_000
      away.set(program, { call, back_us: t + stays_us })
      hold.ended(call, tokens, t)
      const buy_us = buyUs(tokens, { ...SIZES, prefill_us_per_token: US_PER_TOKEN })
      tell({ ended: [program, tenant, name, buy_us] })
    }
  }
  return `${lines.join('\n')}\n`
}
