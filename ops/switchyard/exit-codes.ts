/** How a command ends. The same for every command but the scripts of this machine, which end with 0 or 1. */
export const EXIT = { done: 0, refused: 1, usage: 2, unreachable: 3 } as const
