/**
 * The headers of a request, read once. A call asks for some thirty of them by name, and each question to the platform's
 * `Headers` costs as much as reading all of them.
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
