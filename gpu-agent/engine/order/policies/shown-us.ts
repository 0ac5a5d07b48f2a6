/** Service as people read it: `4.2 ms`, `1.30 s`, `85 s`. */
export function shownUs(us: number): string {
  const s = us / 1e6
  if (s >= 10) return `${Math.round(s)} s`
  return s >= 1 ? `${s.toFixed(2)} s` : `${(us / 1000).toFixed(1)} ms`
}
