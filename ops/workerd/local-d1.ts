/**
 * A local D1 database, opened without the Worker that uses it and never at the same time: what lies under one state
 * folder is keyed by the database id, for us as for `wrangler dev`, whose folder is .wrangler/state/v3.
 */
import { Log, LogLevel } from 'miniflare'
import type { SqlDatabase } from './d1-migrations.ts'
import { readyMiniflare } from './ready-miniflare.ts'
import type { WorkerConfig } from './worker-config.ts'

export async function withLocalD1<T>(
  config: WorkerConfig,
  stateFolder: string,
  use: (database: SqlDatabase) => Promise<T>,
): Promise<T> {
  const { binding, id } = config.database
  const miniflare = await readyMiniflare({
    host: '127.0.0.1',
    port: 0,
    cf: false,
    log: new Log(LogLevel.ERROR),
    telemetry: { enabled: false },
    enableDevRegistry: false,
    resourcePersistencePath: stateFolder,
    workers: [
      {
        config: {
          name: config.name,
          compatibilityDate: config.compatibilityDate,
          manifest: {
            mainModule: 'none.js',
            modules: { 'none.js': { type: 'esm', contents: 'export default { fetch: () => new Response() }' } },
          },
          env: { [binding]: { type: 'd1', id } },
        },
      },
    ],
  })
  try {
    return await use((await miniflare.getD1Database(binding)) as unknown as SqlDatabase)
  } finally {
    await miniflare.dispose()
  }
}
