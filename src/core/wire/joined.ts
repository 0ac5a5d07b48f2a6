/** The bytes of all parts, one after another. One part is not copied: none of ours is in memory that is shared. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return only as Uint8Array<ArrayBuffer>
  const all = new Uint8Array(parts.reduce((total, { length }) => total + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
