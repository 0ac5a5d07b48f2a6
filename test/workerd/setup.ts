/** Every test file starts on a migrated, empty D1. */
import { applyD1Migrations, type D1Migration } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import type { Env } from '../../src/env.ts'

declare global {
  namespace Cloudflare {
    interface Env extends SwitchyardEnv {
      D1_MIGRATIONS: D1Migration[]
    }
    interface GlobalProps {
      mainModule: typeof import('../../src/worker.ts')
    }
  }
}
interface SwitchyardEnv extends Env {}

await applyD1Migrations(env.DB, env.D1_MIGRATIONS)
