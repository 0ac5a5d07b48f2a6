import { EXIT_USAGE } from '../../cli/flags.ts'

/** How a command ends. */
export const EXIT = { done: 0, refused: 1, usage: EXIT_USAGE, unreachable: 3 } as const
