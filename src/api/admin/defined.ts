/** The fields of a change that were named: an optional field that is left out changes nothing. */
export function definedOf<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const named = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(named) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
