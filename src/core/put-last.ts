/** Sets `key` as the last one of `map`, which holds `size_max` entries. Past it the one that was set longest ago goes. */
export function putLast<V>(map: Map<string, V>, key: string, value: V, size_max: number): void {
  map.delete(key)
  if (map.size >= size_max) {
    const oldest = map.keys().next()
    if (!oldest.done) map.delete(oldest.value)
  }
  map.set(key, value)
}
