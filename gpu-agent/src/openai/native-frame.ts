/**
 * One event of a server's own API on its way to a client that speaks it: its data as the server wrote it, and beside it what it says
 * in the words of chat, for those who time and count (data-plane/).
 */
import type { ChatPiece } from '../../../src/core/wire/native/event-reading.ts'

export class NativeFrame {
  readonly data: string
  readonly choices: ChatPiece['choices']

  constructor(data: string, choices: ChatPiece['choices']) {
    this.data = data
    this.choices = choices
  }
}
