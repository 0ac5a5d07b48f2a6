/**
 * The answer of another process, whose part of the connection is given back at once. It is plain data, which stays. Without this
 * the runtime keeps that part until garbage is collected, and warns.
 */
export async function released<T>(answer: Promise<T>): Promise<T> {
  const value = await answer
  if (typeof value === 'object' && value !== null) (value as Partial<Disposable>)[Symbol.dispose]?.()
  return value
}
