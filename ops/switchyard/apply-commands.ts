/** `apply`: a control plane as a file describes it. */
import type { OperatorCommand } from './command.ts'

export const APPLY_COMMANDS: readonly OperatorCommand[] = [
  {
    words: ['apply'],
    args: [],
    flags: {
      file: { type: 'string', short: 'f', value: 'FILE', help: 'regions, models, agents, tenants and keys, as YAML' },
      'dry-run': { type: 'boolean', help: 'shows what would change, and changes nothing' },
      yes: { type: 'boolean', help: 'does not ask' },
    },
    required: ['file'],
    purpose: 'creates and changes tenants, keys, models, regions and agents by a file, after showing the changes',
    // Its schemas are the API's: loaded for this command alone.
    run: async (asked) => (await import('./apply/run-apply.ts')).runApply(asked),
  },
]
