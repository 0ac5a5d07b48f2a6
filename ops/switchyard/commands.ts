/** Every command, in the order in which the help lists them. */
import { APPLICATION_COMMANDS } from './application-commands.ts'
import { APPLY_COMMANDS } from './apply-commands.ts'
import { BACKUP_COMMANDS } from './backup-commands.ts'
import { BATCH_COMMANDS } from './batch-commands.ts'
import { CLASS_COMMANDS } from './class-commands.ts'
import type { Command } from './command.ts'
import { FILE_COMMANDS } from './file-commands.ts'
import { FLEET_COMMANDS } from './fleet-commands.ts'
import { LOG_COMMANDS } from './log-commands.ts'
import { PLAN_COMMANDS } from './plan/plan-command.ts'
import { PROGRAM_COMMANDS } from './program-commands.ts'
import { SHELL_COMMANDS } from './shell-commands.ts'
import { SPEND_COMMANDS } from './spend-commands.ts'
import { SYSTEM_COMMANDS } from './system-commands.ts'
import { TENANT_COMMANDS } from './tenant-commands.ts'

export const COMMANDS: readonly Command[] = [
  ...SYSTEM_COMMANDS,
  ...PROGRAM_COMMANDS,
  ...[...FILE_COMMANDS, ...BATCH_COMMANDS, ...APPLICATION_COMMANDS],
  ...[...TENANT_COMMANDS, ...SPEND_COMMANDS, ...CLASS_COMMANDS, ...FLEET_COMMANDS],
  ...[...PLAN_COMMANDS, ...APPLY_COMMANDS],
  ...[...BACKUP_COMMANDS, ...LOG_COMMANDS, ...SHELL_COMMANDS],
]
