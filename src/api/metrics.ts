/**
 * GET /metrics: Prometheus text for the operator, behind METRICS_TOKEN or the admin key. Figures from actors are the same
 * in every isolate. The help of a figure that one isolate counts says so. Labels are the operator's own lists (regions,
 * models, engines, tenants) and fixed words. Each list is cut at a bound. No label names a program or comes from a client.
 */
import { Hono, type MiddlewareHandler } from 'hono'
import type { PoolFigures } from '../actors/contracts.ts'
import { poolActor, tenantActor } from '../actors/stubs.ts'
import { CHARGE_FIELDS } from '../core/budget/charge.ts'
import { expectedWaitUs } from '../core/pool/engine-load.ts'
import type { EngineSnapshot } from '../core/pool/pool-types.ts'
import type { Env } from '../env.ts'
import { apiError } from '../platform/api-error.ts'
import { logFailure } from '../platform/log.ts'
import { countedCalls, countedLoweredRecords, countedUnprovenRecords } from '../relay/call-counters.ts'
import { type HistogramFigures, observedTpot, observedTtft } from '../relay/call-latencies.ts'
import { tracingOf } from '../relay/call-trace.ts'
import { DIALECTS } from '../relay/dialects/index.ts'
import { allPools, catalogue } from '../store/catalogue.ts'
import { fromStore } from '../store/database.ts'
import { bearer, secretsEqual } from '../store/secrets.ts'
import { tenantsPage } from '../store/tenants.ts'
import { totalOf } from './admin/spend.ts'
import { atOnce } from './bounded-concurrency.ts'
import { type MetricFamily, PROMETHEUS_CONTENT_TYPE, prometheusText } from './prometheus-text.ts'

/** Pools, and tenants, that one scrape asks; past it the rest is left out and its number told. */
export const POOLS_ASKED_MAX = 500
export const TENANTS_ASKED_MAX = 100
const ACTORS_AT_ONCE_MAX = 16

interface Scope {
  Bindings: Env
}

interface PoolAnswer {
  region: string
  model: string
  /** Null: the pool did not answer. */
  figures: PoolFigures | null
}

const requireReader: MiddlewareHandler<Scope> = async (c, next) => {
  const given = bearer(c.req.raw.headers)
  const accepted = [c.env.METRICS_TOKEN ?? '', c.env.ADMIN_KEY].filter((token) => token !== '')
  const matches = given === null ? [] : await Promise.all(accepted.map((token) => secretsEqual(given, token)))
  if (!matches.includes(true)) {
    const message = 'Send METRICS_TOKEN or the admin key as bearer token to read metrics.'
    return apiError(401, { message, code: 'invalid_metrics_token' }, { 'www-authenticate': 'Bearer' })
  }
  await next()
}

export const metricsRoutes = new Hono<Scope>()
metricsRoutes.get('/metrics', requireReader, async (c) => {
  const [pools, tenants] = await Promise.all([poolFamilies(c.env), tenantFamilies(c.env)])
  const text = prometheusText([...pools, ...tenants, ...isolateFamilies(c.env)])
  return new Response(text, { headers: { 'content-type': PROMETHEUS_CONTENT_TYPE, 'cache-control': 'no-store' } })
})

async function poolFamilies(env: Env): Promise<MetricFamily[]> {
  const { linked: all } = allPools(await catalogue(env))
  const answers = await atOnce(all.slice(0, POOLS_ASKED_MAX), ACTORS_AT_ONCE_MAX, async ({ region, model }) => {
    try {
      return { region: region.id, model, figures: await poolActor(env, region, model).figures() }
    } catch (error) {
      logFailure('pool_unreachable', error, { region: region.id, model })
      return { region: region.id, model, figures: null }
    }
  })
  const gauge = (name: string, help: string, samples: MetricFamily['samples']): MetricFamily => {
    return { name: `switchyard_${name}`, help, type: 'gauge', samples }
  }
  const engine = (name: string, help: string, of: (snapshot: EngineSnapshot) => number) =>
    gauge(`engine_${name}`, help, engineSamples(answers, of))
  return [
    gauge(
      'pool_up',
      'Whether the PoolActor answered.',
      poolSamples(answers, ({ figures }) => (figures === null ? 0 : 1)),
    ),
    gauge('pools_not_asked', `Pools that an agent has linked to, beyond the first ${POOLS_ASKED_MAX}.`, [
      { value: Math.max(0, all.length - POOLS_ASKED_MAX) },
    ]),
    {
      name: 'switchyard_pool_leases_total',
      help: 'Leases that the PoolActor granted since it was last started, by its reason. A Worker may note another (spilled, snapshot).',
      type: 'counter',
      samples: leaseSamples(answers),
    },
    {
      name: 'switchyard_pool_leases_refused_total',
      help: 'Calls for which the PoolActor had no engine, since it was last started.',
      type: 'counter',
      samples: poolSamples(answers, ({ figures }) => figures?.refused ?? null),
    },
    engine('up', 'Whether the engine takes leases: reported within 3 s, not draining, not down.', ({ state }) =>
      state === 'ready' ? 1 : 0,
    ),
    engine('waiting_calls', 'Calls that wait on the engine, as last reported.', ({ waiting }) => waiting),
    engine('running_calls', 'Calls in a step of the engine, as last reported.', ({ running }) => running),
    engine('seats', 'Calls that can be in one step.', ({ seats }) => seats),
    engine('queued_tokens', 'Prompt tokens still to be prefilled, as last reported.', (one) => one.queued_tokens),
    engine('kv_used_tokens', 'Tokens whose KV is resident, as last reported.', (one) => one.kv_used_tokens),
    engine('kv_capacity_tokens', 'Tokens whose KV can be resident.', (one) => one.kv_capacity_tokens),
    engine('leases_since_report', 'Leases granted since the last report.', (one) => one.leases_since_report),
    engine(
      'expected_wait_seconds',
      'How long a call would wait for the work that is queued: 0 while seats are free. What cost-aware goes by.',
      (one) => expectedWaitUs(one) / 1e6,
    ),
  ]
}

function poolSamples(pools: readonly PoolAnswer[], of: (pool: PoolAnswer) => number | null): MetricFamily['samples'] {
  return pools.flatMap((pool) => {
    const value = of(pool)
    return value === null ? [] : { labels: { region: pool.region, model: pool.model }, value }
  })
}

function leaseSamples(pools: readonly PoolAnswer[]): MetricFamily['samples'] {
  return pools.flatMap(({ region, model, figures }) =>
    Object.entries(figures?.leases ?? {}).map(([reason, value]) => ({ labels: { region, model, reason }, value })),
  )
}

function engineSamples(
  pools: readonly PoolAnswer[],
  of: (snapshot: EngineSnapshot) => number,
): MetricFamily['samples'] {
  return pools.flatMap(({ region, model, figures }) =>
    (figures?.snapshot.engines ?? []).map((one) => ({ labels: { region, model, engine: one.engine }, value: of(one) })),
  )
}

async function tenantFamilies(env: Env): Promise<MetricFamily[]> {
  const listed = await fromStore(() => tenantsPage(env.DB, null, TENANTS_ASKED_MAX + 1))
  const asked = listed.slice(0, TENANTS_ASKED_MAX)
  const today = new Date().toISOString().slice(0, 10)
  const days = { from: `${today.slice(0, 7)}-01`, to: today }
  const answers = await atOnce(asked, ACTORS_AT_ONCE_MAX, async ({ id: tenant }) => {
    try {
      const [running, spent] = await Promise.all([tenantActor(env, tenant).runningCount(), totalOf(env, tenant, days)])
      return { tenant, running, spent }
    } catch (error) {
      logFailure('tenant_unreachable', error, { tenant })
      return null
    }
  })
  const tenants = answers.filter((answer) => answer !== null)
  return [
    {
      name: 'switchyard_tenant_programs_running',
      help: 'Running programs in the tenant’s index, which is updated about once a second.',
      type: 'gauge',
      samples: tenants.map(({ tenant, running }) => ({ labels: { tenant }, value: running })),
    },
    {
      name: 'switchyard_tenant_spend',
      help: 'What the tenant’s calls were charged in this UTC month, by kind: calls, tokens, microseconds of service, billionths of money. Back to 0 with each month.',
      type: 'gauge',
      samples: tenants.flatMap(({ tenant, spent }) =>
        CHARGE_FIELDS.map((kind) => ({ labels: { tenant, kind }, value: spent[kind] })),
      ),
    },
    {
      name: 'switchyard_tenants_left_out',
      help: `1 if there are more tenants than the first ${TENANTS_ASKED_MAX} by id. Only the programs of those are counted.`,
      type: 'gauge',
      samples: [{ value: listed.length > asked.length ? 1 : 0 }],
    },
  ]
}

function isolateFamilies(env: Env): MetricFamily[] {
  const isolate = 'since this isolate began. On Cloudflare there are many, and a scrape reaches one'
  return [
    {
      name: 'switchyard_isolate_calls_total',
      help: `Calls that were admitted and have ended, by how their client was answered, ${isolate}.`,
      type: 'counter',
      samples: countedCalls(Object.keys(DIALECTS)).map(({ dialect, outcome, calls }) => ({
        labels: { dialect, outcome },
        value: calls,
      })),
    },
    {
      name: 'switchyard_isolate_ttft_seconds',
      help: `TTFT: from the request to the first data event, ${isolate}.`,
      type: 'histogram',
      samples: observedTtft().flatMap(({ dialect, figures }) => histogramSamples({ dialect }, figures)),
    },
    {
      name: 'switchyard_isolate_tpot_seconds',
      help: `TPOT: time per output token after the first, from the agents' records that were taken ${isolate}.`,
      type: 'histogram',
      samples: histogramSamples({}, observedTpot()),
    },
    {
      name: 'switchyard_isolate_records_unproven_total',
      help: `Records of leases that were never granted, refused, ${isolate}. The log names their agents.`,
      type: 'counter',
      samples: [{ value: countedUnprovenRecords() }],
    },
    {
      name: 'switchyard_isolate_records_lowered_total',
      help: `Records that stated more than their calls can have used, lowered to that, ${isolate}. The audit names their agents.`,
      type: 'counter',
      samples: [{ value: countedLoweredRecords() }],
    },
    {
      name: 'switchyard_isolate_spans_dropped_total',
      help: `Spans that could not be delivered, ${isolate}.`,
      type: 'counter',
      samples: [{ value: tracingOf(env)?.dropped ?? 0 }],
    },
  ]
}

function histogramSamples(
  labels: Readonly<Record<string, string>>,
  { buckets, sum, count }: HistogramFigures,
): MetricFamily['samples'] {
  return [
    ...buckets.map((bucket) => {
      const le = bucket.le === null ? '+Inf' : String(bucket.le)
      return { suffix: '_bucket', labels: { ...labels, le }, value: bucket.count }
    }),
    { suffix: '_sum', labels, value: sum },
    { suffix: '_count', labels, value: count },
  ]
}
