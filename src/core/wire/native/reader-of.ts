import type { NativeApi } from '../../../protocol/index.ts'
import type { EventReader } from './event-reading.ts'
import { MessagesReader } from './messages-reader.ts'
import { ResponsesReader } from './responses-reader.ts'

export function readerOf(api: NativeApi): EventReader {
  return api === 'messages' ? new MessagesReader() : new ResponsesReader()
}
