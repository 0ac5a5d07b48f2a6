/**
 * Entry of the embedded engine's process: one LocalFront, spoken to over IPC. A native crash ends this process and not the
 * agent's; it ends itself when the agent is gone. Signals from a terminal go to both: the agent decides, so they are ignored.
 */
import { ClassBook } from '../../../../src/core/classes/class-book.ts'
import { ClassSketch } from '../../../../src/core/classes/class-sketch.ts'
import type { CallSink, EngineFront } from '../engine-front.ts'
import type { FrontOptions } from '../front-options.ts'
import { startEmbeddedFront } from '../local/embedded-front.ts'
import { ChildOutbox } from './child-outbox.ts'
import type { ParentMessage } from './child-protocol.ts'

const EXIT_STOPPED = 0
const EXIT_FAILED = 1
const EXIT_PARENT_DEAF = 2

process.on('SIGINT', () => undefined)
process.on('SIGTERM', () => undefined)
// A decode may be in flight on another thread; SIGKILL is the one end that waits for nothing.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

const outbox = new ChildOutbox(
  (message, sent) => {
    if (process.connected) process.send?.(message, undefined, undefined, sent)
  },
  () => process.exit(EXIT_PARENT_DEAF),
)

let front: EngineFront | null = null
const classes = new ClassBook()

async function start(options: FrontOptions): Promise<void> {
  const started = await startEmbeddedFront(
    options,
    {
      ledger: (rows) => outbox.push({ type: 'ledger', rows }),
      status: () => {
        if (front !== null) outbox.push({ type: 'status', status: front.status() })
      },
      epoch: () => {
        if (front !== null) outbox.push({ type: 'epoch', description: front.describe(), status: front.status() })
      },
      contexts: (counts) => outbox.push({ type: 'contexts', counts }),
      lengths: (verdict) => outbox.push({ type: 'lengths', verdict }),
    },
    (message, error) => console.error(`${options.id}: ${message}:`, error),
    classes,
  )
  front = started
  const hints = [...(started.hints ?? [])]
  outbox.push({ type: 'ready', description: started.describe(), status: started.status(), hints })
}

function sinkOf(lease: string): CallSink {
  return {
    refused: (error) => outbox.push({ type: 'refused', lease, error }),
    accepted: (prompt_tokens) => outbox.push({ type: 'accepted', lease, prompt_tokens }),
    chunk: (chunk, tokens = []) => outbox.push({ type: 'chunk', lease, chunk, tokens }),
    ended: (end) => outbox.push({ type: 'ended', lease, end }),
  }
}

async function handle(message: ParentMessage): Promise<void> {
  switch (message.type) {
    case 'start':
      return start(message.options)
    case 'classes':
      for (const one of message.classes) classes.set(one.tenant, one.class, ClassSketch.from(one.sketch))
      return
    case 'serve':
      return front?.serve(message.call, sinkOf(message.call.claims.lease))
    case 'cancel':
      return front?.cancel(message.lease, message.error)
    case 'discard':
      return front?.discard?.(message.program)
    case 'positions': {
      const positions = (await front?.positions?.(message.leases)) ?? []
      outbox.push({ type: 'positions', number: message.number, positions })
      return
    }
    case 'drain':
      await front?.drain()
      outbox.push({ type: 'drained' })
      return
    case 'stop':
      await front?.stop()
      await outbox.flushed()
      process.exit(EXIT_STOPPED)
  }
}

process.on('message', (message: ParentMessage) => {
  handle(message).catch(async (error: unknown) => {
    const text = error instanceof Error ? error.message : String(error)
    outbox.push({ type: 'failed', message: text })
    await outbox.flushed()
    process.exit(EXIT_FAILED)
  })
})
