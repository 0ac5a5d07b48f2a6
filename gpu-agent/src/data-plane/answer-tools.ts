/** Names of the tools that an answer asks for, from the chunks of its first choice. Arguments are not looked at. */
import { toolName } from '../../../src/core/tools/tool-name.ts'
import { TOOLS_PER_CALL_MAX } from '../../../src/protocol/index.ts'

/** Of a front's chunk, made by our own code. */
interface Chunk {
  choices?: readonly { index: number; delta?: { tool_calls?: readonly ToolPiece[] | null } }[]
}

interface ToolPiece {
  /** Only in the first piece of a call. */
  function?: { name?: string }
}

export class AnswerTools {
  readonly #names: string[] = []

  /** In the order in which they were asked for, at most TOOLS_PER_CALL_MAX. */
  get names(): readonly string[] {
    return this.#names
  }

  chunk(chunk: object): void {
    const { choices = [] } = chunk as Chunk
    for (const { index, delta } of choices) {
      if (index !== 0) continue
      for (const piece of delta?.tool_calls ?? []) {
        const name = toolName(piece.function?.name)
        if (name !== null && this.#names.length < TOOLS_PER_CALL_MAX) this.#names.push(name)
      }
    }
  }
}
