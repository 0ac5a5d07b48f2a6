/**
 * What the benchmark asks of the plug-in itself, between two agents: another policy, and its counts. It acknowledges no record: those are
 * the agent's.
 */
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { z } from 'zod'

const ANSWER_TIMEOUT_MS = 30_000
const OPTIONS_NUMBER = 1

const Status = z.object({
  type: z.literal('status'),
  policy: z.string(),
  waiting: z.number(),
  running: z.number(),
  steps: z.number(),
  decision_us: z.number(),
  preemptions_for_seats: z.number(),
  preemptions_for_memory: z.number(),
  preemptions_by_vllm: z.number(),
  malformed_tickets: z.number(),
  failures: z.number(),
  failed_reason: z.string().optional(),
})
export type PluginStatus = z.infer<typeof Status>

const Message = z.looseObject({ type: z.string() })

/** Changes the policy of a plug-in that serves nobody. `step` makes the engine step, which is when it is applied. */
export async function changePolicy(socket: string, policy: string, step: () => Promise<void>): Promise<void> {
  const verdict = await conversation(socket, async (say, hear) => {
    say({ type: 'options', number: OPTIONS_NUMBER, options: { policy } })
    await step()
    return await hear((message) => ['applied', 'refused'].includes(message.type))
  })
  if (verdict.type === 'refused') throw new Error(`the plug-in refused ${policy}: ${String(verdict.reason)}`)
}

/** The plug-in's counts since it started; the calls of a run have all ended. */
export async function pluginStatus(socket: string): Promise<PluginStatus> {
  const isIdle = (message: z.infer<typeof Message>) =>
    message.type === 'status' && message.running === 0 && message.waiting === 0
  return Status.parse(await conversation(socket, (_, hear) => hear(isIdle)))
}

type Say = (message: object) => void
type Hear = (wanted: (message: z.infer<typeof Message>) => boolean) => Promise<z.infer<typeof Message>>

async function conversation<T>(path: string, talk: (say: Say, hear: Hear) => Promise<T>): Promise<T> {
  const socket: Socket = connect(path)
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
