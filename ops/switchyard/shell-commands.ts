/** `completion`: what a shell needs to complete these commands. */

import { CommandFailure } from './client.ts'
import type { LocalCommand } from './command.ts'
import { COMPLETION_SHELLS, completionScript } from './completion-scripts.ts'

export const SHELL_COMMANDS: readonly LocalCommand[] = [
  {
    words: ['completion'],
    as: 'local',
    args: [COMPLETION_SHELLS.join('|')],
    flags: {},
    purpose: 'a script that completes commands and flags: source <(switchyard completion bash)',
    run: async ({ args: [name = ''] }) => {
      const shell = COMPLETION_SHELLS.find((known) => known === name)
      if (shell === undefined) {
        throw new CommandFailure('usage', `completion takes one of ${COMPLETION_SHELLS.join(', ')}, not "${name}"`)
      }
      const script = completionScript(shell)
      return { kind: 'told', row: { shell, script }, text: script }
    },
  },
]
