/**
 * The headers of a request, read at once. A call asks for some thirty of them by name, and so many questions to the platform's
 * `Headers` cost several times what reading all of them does.
 */
export interface RequestHeaders {
  /** As `Headers` answer it. */
  get(name: string): string | null
}

export function requestHeaders(headers: Headers): RequestHeaders {
  const fields = new Map<string, string>()
  headers.forEach((value, name) => {
    fields.set(name, value)
  })
  return { get: (name) => fields.get(name.toLowerCase()) ?? null }
}
