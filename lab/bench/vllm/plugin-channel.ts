/**
 * What the benchmark asks of the plug-in itself, between two agents: another policy, and its counts. It acknowledges no record: those are
 * the agent's.
 */
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import type { Handling } from '../../../gpu-agent/engine/memory/handling/waste.ts'

const ANSWER_TIMEOUT_MS = 30_000
const OPTIONS_NUMBER = 1
const STEP_TIMEOUT_MS = 60_000

const Handled = z.object({ decided: z.number() }).transform(({ decided }) => decided)
const Status = z.object({
  type: z.literal('status'),
  policy: z.string(),
  kv_capacity_tokens: z.number(),
  waiting: z.number(),
  running: z.number(),
  steps: z.number(),
  decision_us: z.number(),
  preemptions_for_seats: z.number(),
  preemptions_for_memory: z.number(),
  preemptions_by_vllm: z.number(),
  swapped_out_tokens: z.number(),
  swapped_in_tokens: z.number(),
  recomputed_tokens: z.number(),
  tools: z.object({ preserve: Handled, discard: Handled, swap: Handled }),
  malformed_tickets: z.number(),
  failures: z.number(),
  failed_reason: z.string().optional(),
})

export interface PluginCounts {
  policy: string
  kv_capacity_tokens: number
  steps: number
  decision_us: number
  preemptions: number
  /** Of preempted calls. */
  swapped_out_tokens: number
  swapped_in_tokens: number
  recomputed_tokens: number
  /** Contexts of programs whose tools ran, by what was decided. */
  handled: Readonly<Record<Handling, number>>
}

const Message = z.looseObject({ type: z.string() })

export interface PluginServer {
  url: string
  socket: string | null
}

/** Gives an idle vLLM another policy, and says what its plug-in has counted so far. */
export async function switchTo(server: PluginServer, policy: string, model: string): Promise<PluginCounts> {
  const verdict = await conversation(server, async (say, hear) => {
    say({ type: 'options', number: OPTIONS_NUMBER, options: { policy } })
    await oneStep(server.url, model)
    return await hear((message) => ['applied', 'refused'].includes(message.type))
  })
  if (verdict.type === 'refused') throw new Error(`the plug-in refused ${policy}: ${String(verdict.reason)}`)
  const counts = await pluginStatus(server)
  if (counts.policy !== policy) throw new Error(`the plug-in runs ${counts.policy}, not ${policy}`)
  return counts
}

/** The plug-in's counts since it started; the calls of a run have all ended. It fails if the plug-in failed, or could not read a ticket. */
export async function pluginStatus(server: PluginServer): Promise<PluginCounts> {
  const isIdle = (message: z.infer<typeof Message>) =>
    message.type === 'status' && message.running === 0 && message.waiting === 0
  const status = Status.parse(await conversation(server, (_, hear) => hear(isIdle)))
  const { policy, kv_capacity_tokens, steps, decision_us, failures, malformed_tickets } = status
  if (failures > 0) throw new Error(`the plug-in failed: ${status.failed_reason ?? 'no reason was given'}`)
  if (malformed_tickets > 0) throw new Error(`the plug-in could not read ${malformed_tickets} tickets`)
  const preemptions = status.preemptions_for_seats + status.preemptions_for_memory + status.preemptions_by_vllm
  const { swapped_out_tokens, swapped_in_tokens, recomputed_tokens } = status
  const moved = { swapped_out_tokens, swapped_in_tokens, recomputed_tokens }
  return { policy, kv_capacity_tokens, steps, decision_us, preemptions, ...moved, handled: status.tools }
}

/** A change of options is applied before the next step, and an idle engine has none. */
async function oneStep(url: string, model: string): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt: 'a', max_tokens: 1 }),
    signal: AbortSignal.timeout(STEP_TIMEOUT_MS),
  })
  if (!response.ok) throw new Error(`vLLM answered ${response.status}: ${await response.text()}`)
}

type Say = (message: object) => void
type Hear = (wanted: (message: z.infer<typeof Message>) => boolean) => Promise<z.infer<typeof Message>>

async function conversation<T>(server: PluginServer, talk: (say: Say, hear: Hear) => Promise<T>): Promise<T> {
  if (server.socket === null) throw new Error('this vLLM has no plug-in')
  const socket: Socket = connect(server.socket)
  const failed = new Promise<never>((_, reject) => {
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => reject(new Error('the plug-in says nothing on its side channel')))
    socket.once('error', reject)
  })
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]()
  const hear: Hear = async (wanted) => {
    const until_ms = performance.now() + ANSWER_TIMEOUT_MS
    while (performance.now() < until_ms) {
      const line = await lines.next()
      if (line.done === true) throw new Error('the plug-in closed its side channel')
      const message = Message.parse(JSON.parse(line.value))
      if (wanted(message)) return message
    }
    throw new Error(`the plug-in did not answer within ${ANSWER_TIMEOUT_MS / 1000} s`)
  }
  const say: Say = (message) => {
    socket.write(`${JSON.stringify(message)}\n`)
  }
  try {
    return await Promise.race([talk(say, hear), failed])
  } finally {
    socket.destroy()
  }
}
