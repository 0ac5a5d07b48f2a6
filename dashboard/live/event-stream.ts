/** The data of a text/event-stream, event by event (WHATWG HTML 9.2.6; only `data` is used here). */
export async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let left = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      left += decoder.decode(value, { stream: true })
      const events = left.split('\n\n')
      left = events.pop() ?? ''
      for (const event of events) {
        const data = event.split('\n').filter((line) => line.startsWith('data: '))
        if (data.length > 0) yield data.map((line) => line.slice('data: '.length)).join('\n')
      }
    }
  } finally {
    reader.cancel().catch(() => {
      // The stream has ended or was aborted: there is nothing left to cancel.
    })
  }
}
