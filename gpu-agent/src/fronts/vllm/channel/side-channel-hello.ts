/**
 * The first words on a side channel (docs/vllm-plugin.md), asked when a vLLM is started or found, before its front connects: who
 * is there. A wish for other options may be left with it: the engine applies it before its next step, also when this
 * connection has ended. The front's connection replaces this one.
 */
import { connect } from 'node:net'
import type { SchedulerOptions } from '../process/vllm-launch.ts'
import { CHANNEL_VERSION, type EngineHello, Hello } from './channel-messages.ts'

const HELLO_MS_MAX = 10_000
const LINE_BYTES_MAX = 65_536

export type Heard = { ok: true; hello: EngineHello } | { ok: false; reason: string }

export function hearHello(path: string, wish: SchedulerOptions | null = null): Promise<Heard> {
  return new Promise((resolve) => {
    const socket = connect(path)
    let text = ''
    const end = (heard: Heard): void => {
      // Only the first counts: what follows is this connection's own end.
      resolve(heard)
      socket.destroy()
    }
    socket.setTimeout(HELLO_MS_MAX, () => end({ ok: false, reason: 'no plug-in answers there' }))
    socket.on('error', (error) => end({ ok: false, reason: error.message }))
    socket.on('close', () => end({ ok: false, reason: 'it was closed before a hello' }))
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part
      const line = text.indexOf('\n')
      if (line === -1) {
        if (text.length > LINE_BYTES_MAX) end({ ok: false, reason: 'its first line is too long' })
        return
      }
      socket.pause()
      const heard = read(text.slice(0, line))
      if (!heard.ok || wish === null) return end(heard)
      const message = { type: 'options', number: 1, options: wish }
      socket.end(`${JSON.stringify(message)}\n`, () => end(heard))
    })
  })
}

function read(line: string): Heard {
  let value: unknown = null
  try {
    value = JSON.parse(line)
  } catch {
    // What is no JSON is no hello: refused below.
  }
  const parsed = Hello.safeParse(value)
  if (parsed.success && parsed.data.v === CHANNEL_VERSION) return { ok: true, hello: parsed.data }
  const version = `version ${CHANNEL_VERSION} of the side channel`
  return { ok: false, reason: `it does not speak ${version}: is Switchyard's plug-in in it that of this release?` }
}
