/**
 * ATLAS (Autellix §4.2.1): the longest observed chain of calls of one program, in the ordering reading.
 *
 * A call inherits the scalar at admission: its `start`. When its service t is known, the scalar becomes max(scalar, start +
 * t). That is the paper's form. It needs no dependencies, so a client that hides them gains nothing. The inherited value
 * may be too small when a parent's record comes after the child was admitted. Then start is raised to the parent's start +
 * t, so the order in which records arrive does not matter. Eq. 2 over declared parents is not computed: a client's
 * declarations must not order programs, and nothing else reads it.
 *
 * Calls are added parents first, so one forward pass recomputes everything. The pass runs at the next read after the
 * service of a call with children changed, and starts at that call.
 */

interface PathNode {
  parents: readonly number[]
  inherited_us: number
  service_us: number
  has_children: boolean
  start_us: number
}

export class CriticalPath {
  #nodes: PathNode[] = []
  #index = new Map<string, number>()
  /** Of calls that are not here. */
  readonly #floor_us: number
  #scalar_us: number
  /** First node whose values may be out of date. */
  #dirtyFrom = Number.POSITIVE_INFINITY

  /** `floor_us`: the scalar of calls that are over and are not added. */
  constructor(floor_us = 0) {
    this.#floor_us = floor_us
    this.#scalar_us = floor_us
  }

  /** Adds a call; parents that were never added are ignored. */
  add(call: string, parents: readonly string[], inherited_us: number): void {
    if (this.#index.has(call)) throw new Error(`call ${call} is on the critical path already`)
    this.#refresh()
    const indices: number[] = []
    for (const parent of parents) {
      const index = this.#index.get(parent)
      if (index === undefined) continue
      indices.push(index)
      this.#node(index).has_children = true
    }
    const node = {
      parents: indices,
      inherited_us,
      service_us: 0,
      has_children: false,
      start_us: 0,
    }
    this.#index.set(call, this.#nodes.length)
    this.#nodes.push(node)
    this.#evaluate(node)
  }

  /** Sets the service of a call: the sum over its settled leases. Wasted leases count, since they ran one after another. */
  setService(call: string, service_us: number): void {
    const index = this.#index.get(call)
    if (index === undefined) throw new Error(`call ${call} is not on the critical path`)
    const node = this.#node(index)
    const fell = service_us < node.service_us
    if (service_us === node.service_us) return
    node.service_us = service_us
    if (fell) this.#dirtyFrom = 0
    else if (node.has_children || this.#dirtyFrom <= index) this.#dirtyFrom = Math.min(this.#dirtyFrom, index)
    else this.#scalar_us = Math.max(this.#scalar_us, node.start_us + service_us)
  }

  /** The longest observed critical path of the program. */
  scalarUs(): number {
    this.#refresh()
    return this.#scalar_us
  }

  /** Where the call begins on the scalar's path. */
  startUs(call: string): number {
    this.#refresh()
    return this.#nodes[this.#index.get(call) ?? -1]?.start_us ?? 0
  }

  #refresh(): void {
    if (this.#dirtyFrom === Number.POSITIVE_INFINITY) return
    if (this.#dirtyFrom === 0) this.#scalar_us = this.#floor_us
    for (let index = this.#dirtyFrom; index < this.#nodes.length; index += 1) this.#evaluate(this.#node(index))
    this.#dirtyFrom = Number.POSITIVE_INFINITY
  }

  #evaluate(node: PathNode): void {
    let start_us = node.inherited_us
    for (const index of node.parents) {
      const parent = this.#node(index)
      start_us = Math.max(start_us, parent.start_us + parent.service_us)
    }
    node.start_us = start_us
    // A call without service was not observed: its start only repeats the completion of its parents.
    if (node.service_us > 0) this.#scalar_us = Math.max(this.#scalar_us, start_us + node.service_us)
  }

  #node(index: number): PathNode {
    const node = this.#nodes[index]
    if (node === undefined) throw new Error(`no call at position ${index} of the critical path`)
    return node
  }
}
