/** What a call sends its client behind its record: how each choice ended, and the usage. */
import type { ChoiceFinish, ChunkFrame, Usage } from '../../../openai/chunk-frame.ts'

export interface CallEndFrame {
  /** `finishes`: by choice. */
  last(finishes: readonly ChoiceFinish[], usage: Usage): readonly object[]
}

export function textEnd(frame: Pick<ChunkFrame, 'finish' | 'usage'>): CallEndFrame {
  return {
    last: (finishes, usage) => {
      const ended = finishes.map((finish, index) => frame.finish(index, finish))
      const told = frame.usage(usage)
      return told === null ? ended : [...ended, told]
    },
  }
}
