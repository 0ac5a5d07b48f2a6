/** A server-sent event of an API that names its events. `data`: JSON without line breaks, as a server wrote it. */
export function eventOf(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`
}
