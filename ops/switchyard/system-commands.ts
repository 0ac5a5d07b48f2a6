/** `up`, `down`, `status`, `reset`, `demo`: the system on this machine. Each is a script with flags and a help of its own. */
import type { ScriptCommand } from './command.ts'

export const SYSTEM_COMMANDS: readonly ScriptCommand[] = [
  script('up', 'starts Switchyard on this machine', () => import('../up.ts')),
  script('down', 'stops it and everything that it started', () => import('../down.ts')),
  script(
    'status',
    'what runs here: processes, engines, storage; --show-key shows the keys',
    () => import('../status.ts'),
  ),
  script('demo', 'runs agents against it, and shows what they gain', () => import('../demo/main.ts')),
  script('reset', 'deletes its state', () => import('../reset.ts')),
]

function script(word: string, purpose: string, load: () => Promise<unknown>): ScriptCommand {
  return { words: [word], as: 'script', args: [], flags: {}, purpose, load }
}
