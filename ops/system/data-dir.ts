/** Where a running system keeps what is its own: everything under the data directory, nothing elsewhere. */
import path from 'node:path'

export const DATA_DIR_DEFAULT = '.switchyard'

export interface DataDir {
  root: string
  /** Describes the running system to people and scripts. */
  devJson: string
  /** Describes a production system, without a secret; its presence says whose the directory is. */
  production: string
  /** Held by the one supervisor. */
  lock: string
  secrets: string
  /** D1, R2 and Durable Objects. */
  state: string
  /** Copies of `state`, each made before an upgrade. */
  backups: string
  /** pid files of all that the supervisor started. */
  run: string
  logs: string
  /** Temporary files of workerd's starter; emptied at each start. */
  tmp: string
  agent: (id: string) => string
}

export function dataDir(directory: string, cwd: string = process.cwd()): DataDir {
  const root = path.resolve(cwd, directory)
  return {
    root,
    devJson: path.join(root, 'dev.json'),
    production: path.join(root, 'production.json'),
    lock: path.join(root, 'up.lock'),
    secrets: path.join(root, 'secrets.json'),
    state: path.join(root, 'state'),
    backups: path.join(root, 'backups'),
    run: path.join(root, 'run'),
    logs: path.join(root, 'logs'),
    tmp: path.join(root, 'tmp'),
    agent: (id) => path.join(root, 'agents', id),
  }
}
