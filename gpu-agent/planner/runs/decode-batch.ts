/**
 * The requests of a replica that decode, as sums: how many they are, their tokens, the longest, and the blocks of KV that they need next. All advance
 * by one token in a step, so a request is described by `end`, the step at which it ends, and `offset`, its tokens less the steps so far. Both stay as
 * they are while it decodes, and many steps are taken at once.
 *
 * A request whose tokens reach 16m + 1 (`block_tokens` = 16) needs one more block in that step. `#growing[r]` counts the requests that need one in
 * steps that are r modulo `block_tokens`.
 */

export class DecodeBatch {
  readonly #seats: number
  readonly #block_tokens: number
  readonly #offset: Int32Array
  readonly #end: Int32Array
  readonly #decodes: Uint8Array
  /** Heap of requests, the one that ends first at the top, and of those that end together the one with the lowest number. */
  readonly #heap: Int32Array
  #heap_size = 0
  readonly #growing: Int32Array
  /** How often due blocks were taken when a request came, so that it is known which of them have theirs. */
  readonly #came: Int32Array
  #takes = 0
  /** Blocks of the next step were taken, but for requests that came since. */
  #taken = false
  #steps = 0
  #calls = 0
  #offsets = 0
  /** Of the requests; NaN: to be looked up. */
  #longest_offset = Number.NEGATIVE_INFINITY
  /** Blocks that the next step needs and that are not taken yet. */
  #due_blocks = 0

  constructor(requests: number, seats: number, block_tokens: number) {
    this.#seats = seats
    this.#block_tokens = block_tokens
    this.#came = new Int32Array(requests)
    this.#offset = new Int32Array(requests)
    this.#end = new Int32Array(requests)
    this.#decodes = new Uint8Array(requests)
    this.#heap = new Int32Array(Math.min(requests, seats))
    this.#growing = new Int32Array(block_tokens)
  }

  clone(): DecodeBatch {
    const copy = new DecodeBatch(this.#requests, this.#seats, this.#block_tokens)
    copy.#copy(this)
    return copy
  }

  get calls(): number {
    return this.#calls
  }

  /** S of the next step. */
  get tokens(): number {
    return this.#offsets + this.#calls * this.#steps
  }

  /** s of the next step. */
  get longest(): number {
    if (Number.isNaN(this.#longest_offset)) this.#longest_offset = this.#findLongest()
    return this.#longest_offset + this.#steps
  }

  get due_blocks(): number {
    return this.#due_blocks
  }

  /** Steps until the first request ends. */
  get steps_left(): number {
    return this.#heap_size === 0 ? 0 : (this.#end[this.#heap[0] as number] as number) - this.#steps
  }

  get #requests(): number {
    return this.#offset.length
  }

  has(request: number): boolean {
    return this.#decodes[request] === 1
  }

  /** `tokens` are known of the request, and it has yet to generate `left`, at least 1. */
  add(request: number, tokens: number, left: number): void {
    const offset = tokens - this.#steps
    this.#offset[request] = offset
    this.#end[request] = this.#steps + left
    this.#decodes[request] = 1
    this.#came[request] = this.#takes
    this.#calls += 1
    this.#offsets += offset
    if (!(offset <= this.#longest_offset)) this.#noteLonger(offset)
    const at = this.#growsAt(offset)
    this.#growing[at] = (this.#growing[at] as number) + 1
    if (at === this.#steps % this.#block_tokens) this.#due_blocks += 1
    this.#push(request)
  }

  /** Tokens known of a request that decodes, and those left. */
  progress(request: number): { tokens: number; left: number } {
    return {
      tokens: (this.#offset[request] as number) + this.#steps,
      left: (this.#end[request] as number) - this.#steps,
    }
  }

  /** Whether the request needs a block in the next step, which it does not have. */
  isDue(request: number): boolean {
    if (this.#taken && (this.#came[request] as number) < this.#takes) return false
    return this.#growsAt(this.#offset[request] as number) === this.#steps % this.#block_tokens
  }

  /** The request leaves. Returns the blocks that it has. */
  remove(request: number): number {
    const offset = this.#offset[request] as number
    const at = this.#growsAt(offset)
    const due = this.isDue(request) ? 1 : 0
    this.#due_blocks -= due
    this.#growing[at] = (this.#growing[at] as number) - 1
    this.#decodes[request] = 0
    this.#dropAt(this.#heap[0] === request ? 0 : this.#heap.indexOf(request))
    this.#calls -= 1
    this.#offsets -= offset
    if (offset === this.#longest_offset) this.#longest_offset = Number.NaN
    return Math.ceil((offset + this.#steps) / this.#block_tokens) - due
  }

  /** The blocks of the next step are taken. */
  takeDue(): void {
    this.#due_blocks = 0
    this.#taken = true
    this.#takes += 1
  }

  /** The most steps, up to `steps`, whose blocks beyond the first step's are at most `free_blocks`. */
  stepsThatFit(steps: number, free_blocks: number): number {
    const size = this.#block_tokens
    if (this.#calls * Math.ceil((steps - 1) / size) <= free_blocks) return steps
    let taken = 0
    for (let step = 1; step < steps; step += 1) {
      taken += this.#growing[(this.#steps + step) % size] as number
      if (taken > free_blocks) return step
    }
    return steps
  }

  /** Takes `steps` steps. Returns the blocks that those after the first one took. Ended requests are still to be popped. */
  advance(steps: number): number {
    const size = this.#block_tokens
    let blocks = Math.floor((steps - 1) / size) * this.#calls
    for (let step = steps - 1 - ((steps - 1) % size) + 1; step < steps; step += 1)
      blocks += this.#growing[(this.#steps + step) % size] as number
    this.#steps += steps
    this.#taken = false
    this.#due_blocks = this.#growing[this.#steps % size] as number
    return blocks
  }

  /** A request that has ended and is still to be removed; -1: none. */
  get ended(): number {
    if (this.#heap_size === 0) return -1
    const first = this.#heap[0] as number
    return (this.#end[first] as number) > this.#steps ? -1 : first
  }

  #growsAt(offset: number): number {
    const size = this.#block_tokens
    return (((1 - offset) % size) + size) % size
  }

  #noteLonger(offset: number): void {
    // While the longest is to be looked up, a longer one than all may be unknown.
    if (!Number.isNaN(this.#longest_offset)) this.#longest_offset = offset
  }

  #findLongest(): number {
    let longest = Number.NEGATIVE_INFINITY
    for (let at = 0; at < this.#heap_size; at += 1) {
      const offset = this.#offset[this.#heap[at] as number] as number
      if (offset > longest) longest = offset
    }
    return longest
  }

  #endsBefore(a: number, b: number): boolean {
    const a_end = this.#end[a] as number
    const b_end = this.#end[b] as number
    return a_end < b_end || (a_end === b_end && a < b)
  }

  #push(request: number): void {
    this.#heap_size += 1
    this.#siftUp(this.#heap_size - 1, request)
  }

  #dropAt(at: number): void {
    this.#heap_size -= 1
    const moved = this.#heap[this.#heap_size] as number
    if (at === this.#heap_size) return
    if (at > 0 && this.#endsBefore(moved, this.#heap[(at - 1) >> 1] as number)) this.#siftUp(at, moved)
    else this.#siftDown(at, moved)
  }

  #siftUp(from: number, request: number): void {
    const heap = this.#heap
    let at = from
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.#endsBefore(request, heap[parent] as number)) break
      heap[at] = heap[parent] as number
      at = parent
    }
    heap[at] = request
  }

  #siftDown(from: number, request: number): void {
    const heap = this.#heap
    const size = this.#heap_size
    let at = from
    for (;;) {
      let child = at * 2 + 1
      if (child >= size) break
      if (child + 1 < size && this.#endsBefore(heap[child + 1] as number, heap[child] as number)) child += 1
      if (!this.#endsBefore(heap[child] as number, request)) break
      heap[at] = heap[child] as number
      at = child
    }
    heap[at] = request
  }

  #copy(other: DecodeBatch): void {
    this.#offset.set(other.#offset)
    this.#end.set(other.#end)
    this.#decodes.set(other.#decodes)
    this.#came.set(other.#came)
    this.#growing.set(other.#growing)
    this.#heap.set(other.#heap)
    this.#heap_size = other.#heap_size
    this.#takes = other.#takes
    this.#taken = other.#taken
    this.#steps = other.#steps
    this.#calls = other.#calls
    this.#offsets = other.#offsets
    this.#longest_offset = other.#longest_offset
    this.#due_blocks = other.#due_blocks
  }
}
