/** A child that runs in this process and hears and says what a forked one would, as copies and a turn later. */
import { ClassBook } from '../../../../src/core/classes/class-book.ts'
import { ClassSketch } from '../../../../src/core/classes/class-sketch.ts'
import type { ChildLink, ForkChild } from '../child/child-link.ts'
import type { ChildEvent, ParentMessage } from '../child/child-protocol.ts'
import type { CallSink, EngineFront } from '../engine-front.ts'
import { startEmulatedFront } from '../local/emulated-front.ts'

export const innerChild: ForkChild = (listener) => {
  let front: EngineFront | null = null
  const classes = new ClassBook()
  const say = (event: ChildEvent): void => {
    const copy = structuredClone(event)
    setImmediate(() => listener.events([copy]))
  }
  const sinkOf = (lease: string): CallSink => ({
    refused: (error) => say({ type: 'refused', lease, error }),
    accepted: (prompt_tokens) => say({ type: 'accepted', lease, prompt_tokens }),
    chunk: (chunk) => say({ type: 'chunk', lease, chunk }),
    ended: (end) => say({ type: 'ended', lease, end }),
  })
  const hear = async (message: ParentMessage): Promise<void> => {
    switch (message.type) {
      case 'start': {
        const status = (): void => {
          if (front !== null) say({ type: 'status', status: front.status() })
        }
        const events = { ledger: (rows: ChildRows) => say({ type: 'ledger', rows }), status, epoch: () => undefined }
        const broken = (text: string, error: unknown): never => {
          throw new Error(text, { cause: error })
        }
        front = await startEmulatedFront(message.options, events, broken, classes)
        return say({ type: 'ready', description: front.describe(), status: front.status(), hints: [] })
      }
      case 'classes':
        for (const one of message.classes) classes.set(one.tenant, one.class, ClassSketch.from(one.sketch))
        return
      case 'serve':
        return front?.serve(message.call, sinkOf(message.call.claims.lease))
      case 'positions': {
        const positions = (await front?.positions?.(message.leases)) ?? []
        return say({ type: 'positions', number: message.number, positions })
      }
      case 'cancel':
        return front?.cancel(message.lease, message.error)
      case 'drain':
        await front?.drain()
        return say({ type: 'drained' })
      case 'stop':
        await front?.stop()
        setImmediate(() => listener.gone('exit code 0'))
    }
  }
  const send: ChildLink['send'] = (message) => void hear(structuredClone(message))
  const offer: ChildLink['offer'] = (message) => {
    send(message)
    return true
  }
  return { pid: undefined, send, offer, kill: () => listener.gone('SIGKILL') }
}

type ChildRows = Extract<ChildEvent, { type: 'ledger' }>['rows']
