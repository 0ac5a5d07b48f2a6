/**
 * One at a time, in order of arrival. A Durable Object lets other events in while it waits for D1 or another object; what
 * must not interleave with itself over such a wait goes through one of these.
 */
export class Mutex {
  private last: Promise<unknown> = Promise.resolve()

  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.last.then(work)
    this.last = result.then(
      () => undefined,
      // The failure is the caller's, through `result`; the next in line starts all the same.
      () => undefined,
    )
    return result
  }
}
