/** D1 of another process: what Drizzle and src/store use of its API. */
import type { Peer, RemoteSql, SqlKind } from './peer.ts'
import { released } from './released.ts'

export function remoteDatabase(peer: Peer, secret: string): D1Database {
  const database = {
    prepare: (sql: string) => new RemoteStatement(peer, secret, { sql, params: [] }),
    batch: (statements: RemoteStatement[]) =>
      released(
        peer.sql(
          secret,
          'batch',
          statements.map(({ statement }) => statement),
        ),
      ),
  }
  return database as unknown as D1Database
}

class RemoteStatement {
  readonly statement: RemoteSql
  readonly #peer: Peer
  readonly #secret: string

  constructor(peer: Peer, secret: string, statement: RemoteSql) {
    this.#peer = peer
    this.#secret = secret
    this.statement = statement
  }

  bind(...params: unknown[]): RemoteStatement {
    return new RemoteStatement(this.#peer, this.#secret, { sql: this.statement.sql, params })
  }

  all(): Promise<unknown> {
    return this.#asked('all')
  }

  run(): Promise<unknown> {
    return this.#asked('run')
  }

  raw(): Promise<unknown> {
    return this.#asked('raw')
  }

  #asked(kind: SqlKind): Promise<unknown> {
    return released(this.#peer.sql(this.#secret, kind, [this.statement]))
  }
}
