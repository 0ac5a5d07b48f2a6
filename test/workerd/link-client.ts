/** An agent's end of a link. */
import { expect } from 'vitest'

export interface LinkMessage {
  type: string
  [field: string]: unknown
}

export class Link {
  readonly socket: WebSocket
  private readonly received: LinkMessage[] = []
  private closeCode: number | null = null

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.addEventListener('message', (event) => {
      this.received.push(JSON.parse(event.data as string))
    })
    socket.addEventListener('close', (event) => {
      this.closeCode = event.code
    })
    socket.accept()
  }

  send(message: unknown): void {
    this.socket.send(JSON.stringify(message))
  }

  async message(): Promise<LinkMessage> {
    await expect.poll(() => this.received.length).toBeGreaterThan(0)
    return this.received.shift() as LinkMessage
  }

  async closed(): Promise<number | null> {
    await expect.poll(() => this.closeCode).not.toBeNull()
    return this.closeCode
  }
}
