/**
 * What an application's actor stores: its state, each node's state and the definition under keys of their own, what validation
 * must remember of lines, and results that are in no part yet.
 */
import { ApplicationState, Definition, type NodeState } from '../../core/application/application-state.ts'
import { CheckedIds } from '../batch/checked-ids.ts'
import { keyOf, ResultPacks } from '../batch/result-packs.ts'

const STATE = 'application'
const DEFINITION = 'definition'
const NODE = 'node:'

const Whole = ApplicationState.omit({ nodes: true })
const OneNode = ApplicationState.shape.nodes.element

export class ApplicationStorage {
  readonly #storage: DurableObjectStorage
  readonly ids: CheckedIds

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
    this.ids = new CheckedIds(storage)
  }

  async load(): Promise<{ state: ApplicationState; definition: Definition } | null> {
    const [whole, definition, nodes] = await Promise.all([
      this.#storage.get(STATE),
      this.#storage.get(DEFINITION),
      this.#storage.list({ prefix: NODE }),
    ])
    if (whole === undefined) return null
    const states = [...nodes.values()].map((node) => OneNode.parse(node))
    return { state: { ...Whole.parse(whole), nodes: states }, definition: Definition.parse(definition) }
  }

  async putDefinition(definition: Definition): Promise<void> {
    await this.#storage.put(DEFINITION, definition)
  }

  /** All of it, or nothing. */
  async putState({ nodes, ...whole }: ApplicationState): Promise<void> {
    const listed = nodes.map((node, number) => [keyOf(NODE, number), node] as const)
    await this.#storage.put({ [STATE]: whole, ...Object.fromEntries(listed) })
  }

  packs(node: number): ResultPacks {
    return new ResultPacks(this.#storage, `${keyOf('pack:', node)}:`)
  }

  /** A node as of a part that R2 has, without the packs whose results are in it. Both or neither. */
  async putDone(number: number, node: NodeState, packs: ResultPacks): Promise<void> {
    await Promise.all([this.#storage.put(keyOf(NODE, number), node), packs.dropBefore(node.done.requests)])
  }

  async clear(): Promise<void> {
    await Promise.all([this.#storage.deleteAlarm(), this.#storage.deleteAll()])
  }
}
