/** Bindings of the Worker, as wrangler.toml declares them, plus the secrets. Actors are reached through src/actors/stubs.ts. */

export interface Env {
  DB: D1Database
  /** Calls of ended programs (src/store/segments.ts) and files (src/store/file-contents.ts). */
  BUCKET: R2Bucket
  PROGRAM: DurableObjectNamespace
  POOL: DurableObjectNamespace
  TENANT: DurableObjectNamespace
  IDEMPOTENCY: DurableObjectNamespace
  RESPONSES: DurableObjectNamespace
  CONVERSATION: DurableObjectNamespace
  ARCHIVE: DurableObjectNamespace
  CLASS: DurableObjectNamespace
  BATCH: DurableObjectNamespace
  APPLICATION: DurableObjectNamespace
  HOSTS: DurableObjectNamespace
  /** The network itself: src/platform/network.ts. Left out: `fetch` is the way to it. */
  NETWORK?: Fetcher
  /** Seconds, as text: variables of wrangler.toml are strings. */
  PROGRAM_STALE_AFTER_S: string
  /** For how long ended programs are kept. */
  ARCHIVE_RETENTION_DAYS: string
  /** Milliseconds of delay that the relay adds towards any region but the nearest. */
  SIMULATED_REGION_RTT_MS: string
  /** Which balancer leases: src/core/pool/balancers. Left out: `cost-aware`. */
  BALANCER?: string
  /** Engines of one shard of a pool: src/core/pool/pool-shards.ts. Left out: 64. */
  POOL_SHARD_ENGINES?: string
  /** Keys the hash under which API keys and agent tokens are stored. */
  KEY_PEPPER: string
  /** Master secret of tickets and cache salts. */
  TICKET_SECRET: string
  ADMIN_KEY: string
  /** Origins whose pages may call /v1, with commas between them, or `*`: src/api/cors.ts. Left out: none. */
  CORS_ORIGINS?: string
  /** Hosts that agents' data planes may have: src/core/pool/agent-url.ts. Left out: any but those that never are one. */
  AGENT_URL_HOSTS?: string
  /** Opens /metrics beside the admin key. */
  METRICS_TOKEN?: string
  /** What writes a call whose record is late: src/actors/program-flush.ts. Left out: `alarm`. */
  OPENING_WRITE?: 'alarm' | 'timer'
  /** Files that the runtime's process may open, where it serves every tenant: src/relay/file-budget.ts. */
  OPEN_FILES?: string
  /** What is logged: src/platform/log.ts. */
  LOG_LEVEL?: string
  /** Tracing: src/protocol/otlp.ts. */
  OTEL_EXPORTER_OTLP_ENDPOINT?: string
  OTEL_EXPORTER_OTLP_HEADERS?: string
  OTEL_TRACES_SAMPLER_ARG?: string
}
