/**
 * The requests of a replica that have no seat, in order of arrival. A request arrives when it is ready, or when the one before it in its sequence ends.
 * One that lost its KV comes back before all that arrived later.
 */
export class RequestQueue {
  readonly #ready_s: Float64Array
  /** Requests that become ready by time alone, by ready time; those from `#arrived` on have not arrived. */
  #arrivals: number[]
  #arrived = 0
  /** Place in the order of arrival. */
  readonly #rank: Int32Array
  #ranks = 0
  #queue: number[] = []
  #head = 0
  /** Lost their KV; the last to arrive first. */
  #evicted: number[] = []

  private constructor(ready_s: Float64Array, arrivals: number[]) {
    this.#ready_s = ready_s
    this.#rank = new Int32Array(ready_s.length)
    this.#arrivals = arrivals
  }

  /** `ready_s`: Infinity where it is not known yet. `next`: the request after each one in its sequence; -1: none. */
  static of(ready_s: Float64Array, next: Int32Array): RequestQueue {
    const follows = new Uint8Array(ready_s.length)
    for (const request of next) if (request >= 0) follows[request] = 1
    const arrivals: number[] = []
    for (let request = 0; request < follows.length; request += 1) if (follows[request] === 0) arrivals.push(request)
    const queue = new RequestQueue(ready_s.slice(), arrivals)
    queue.#sortArrivals()
    return queue
  }

  clone(): RequestQueue {
    const copy = new RequestQueue(this.#ready_s.slice(), this.#arrivals.slice(this.#arrived))
    copy.#rank.set(this.#rank)
    copy.#ranks = this.#ranks
    copy.#queue = this.#queue.slice(this.#head)
    copy.#evicted = [...this.#evicted]
    return copy
  }

  /** Infinity: none is to come, as far as is known. */
  get next_arrival_s(): number {
    const request = this.#arrivals[this.#arrived]
    return request === undefined ? Number.POSITIVE_INFINITY : (this.#ready_s[request] as number)
  }

  get is_empty(): boolean {
    return this.#evicted.length === 0 && this.#head === this.#queue.length
  }

  /** The first of all; the queue is not empty. */
  get first(): number {
    return (this.#evicted.at(-1) ?? this.#queue[this.#head]) as number
  }

  takeFirst(): void {
    if (this.#evicted.length > 0) this.#evicted.pop()
    else this.#head += 1
  }

  arriveUntil(at_s: number): void {
    while (this.next_arrival_s <= at_s && this.next_arrival_s < Number.POSITIVE_INFINITY) this.#takeArrival()
  }

  arriveBefore(at_s: number): void {
    while (this.next_arrival_s < at_s) this.#takeArrival()
  }

  /** The request before it in its sequence ended. */
  follow(request: number, now_s: number): void {
    if ((this.#ready_s[request] as number) <= now_s) this.#enqueue(request)
    else {
      this.#arrivals.push(request)
      this.#sortArrivals()
    }
  }

  /** It lost its KV. */
  putBack(request: number): void {
    this.insertByArrival(this.#evicted, request, -1)
  }

  /** Into a list that ascends (`sign` 1) or descends (-1) by arrival. */
  insertByArrival(list: number[], request: number, sign: 1 | -1 = 1): void {
    const rank = (this.#rank[request] as number) * sign
    let at = list.length
    while (at > 0 && (this.#rank[list[at - 1] as number] as number) * sign > rank) at -= 1
    if (at === list.length) list.push(request)
    else list.splice(at, 0, request)
  }

  /** Ready times of requests that have not arrived, changed because what they wait for is to end at another time. */
  setReady(ready_s: (request: number) => number): void {
    for (let at = this.#arrived; at < this.#arrivals.length; at += 1) {
      const request = this.#arrivals[at] as number
      this.#ready_s[request] = ready_s(request)
    }
    this.#sortArrivals()
  }

  #takeArrival(): void {
    this.#enqueue(this.#arrivals[this.#arrived] as number)
    this.#arrived += 1
  }

  #enqueue(request: number): void {
    this.#rank[request] = this.#ranks
    this.#ranks += 1
    this.#queue.push(request)
  }

  #sortArrivals(): void {
    const ready_s = this.#ready_s
    const isSorted = this.#arrivals.every(
      (request, at) =>
        at === 0 || (ready_s[request] as number) >= (ready_s[this.#arrivals[at - 1] as number] as number),
    )
    if (isSorted) return
    const coming = this.#arrivals.slice(this.#arrived)
    // Infinity less Infinity is NaN, and then the requests' own order counts.
    coming.sort((a, b) => (ready_s[a] as number) - (ready_s[b] as number) || a - b)
    this.#arrivals = coming
    this.#arrived = 0
  }
}
