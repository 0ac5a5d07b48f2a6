/**
 * A forked child-main.ts and the channel to it. The child gets no flags of this process (node-llama-cpp tests its binary in
 * a further child that would inherit them: a loader or a debugger port breaks that test) and none of the agent's secrets.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { ChildEvent, ChildMessage, ParentMessage } from './child-protocol.ts'

/** Messages on their way to the child. A body may have megabytes, so calls beyond this are refused and not queued. */
export const SENDS_IN_FLIGHT_MAX = 64

export interface ChildListener {
  events(events: readonly ChildEvent[]): void
  /** Called once: the process has ended and everything that it sent was delivered. */
  gone(reason: string): void
}

export interface ChildLink {
  readonly pid: number | undefined
  /** For messages that must not be lost: at most one per open call, two more, and what pools tell about classes. */
  send(message: ParentMessage): void
  /** False: too much is on its way already, and the message is not sent. */
  offer(message: ParentMessage): boolean
  kill(): void
}

export type ForkChild = (listener: ChildListener) => ChildLink

const ENTRY = fileURLToPath(new URL('./child-main.ts', import.meta.url))

export const forkChild: ForkChild = (listener) => {
  const child = fork(ENTRY, [], {
    execArgv: [],
    env: childEnvironment(process.env),
    // The agent's stdout carries its events; what the engine has to say goes to stderr.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  let in_flight = 0
  let gone = false
  // A child whose loop is blocked does not see that its parent is gone.
  const kill = (): void => {
    child.kill('SIGKILL')
  }
  process.once('exit', kill)
  const end = (reason: string): void => {
    if (gone) return
    gone = true
    process.off('exit', kill)
    listener.gone(reason)
  }
  child.on('message', (message: ChildMessage) => listener.events(message.events))
  // 'exit' may come before the last messages; 'close' comes after the channel is empty.
  child.on('close', (code, signal) => end(signal ?? `exit code ${code}`))
  child.on('error', (error) => {
    // Of a child that never was there is no 'close'; a channel that breaks is followed by one.
    if (child.pid === undefined) end(error.message)
  })
  const send = (message: ParentMessage): void => {
    if (gone || !child.connected) return
    in_flight += 1
    // A failed write means that the child is gone, which 'close' tells.
    child.send(message, () => {
      in_flight -= 1
    })
  }
  return {
    pid: child.pid,
    send,
    offer(message) {
      if (in_flight >= SENDS_IN_FLIGHT_MAX) return false
      send(message)
      return true
    },
    kill,
  }
}

/** Everything but Switchyard's own variables (the agent's token is among them) and flags for this Node process. */
function childEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => !name.startsWith('SWITCHYARD_') && name !== 'NODE_OPTIONS'),
  )
}
