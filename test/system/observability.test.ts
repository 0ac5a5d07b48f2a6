/** What an operator sees of the running system: traces at a real OTLP receiver, metrics, logs, and the dashboard over them. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { OtlpReceiver, type ReceivedSpan } from './support/otlp-receiver.ts'
import { eventually, System } from './support/system.ts'

const METRICS_TOKEN = 'metrics-reader'
const SECRET_TEXT = 'The vault of Zanzibar opens with 4711.'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CLIENT_SPAN = '00f067aa0ba902b7'
const SETTINGS: Record<string, string> = {
  METRICS_TOKEN,
  SWITCHYARD_METRICS_TOKEN: METRICS_TOKEN,
  LOG_LEVEL: 'debug',
  OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector',
}

const DASHBOARD = JSON.parse(readFileSync('ops/grafana/switchyard.json', 'utf8')) as {
  uid: string
  schemaVersion: number
  templating: { list: { name: string }[] }
  panels: {
    id: number
    gridPos: object
    datasource: object
    targets: { expr: string; refId: string; datasource: object }[]
  }[]
}

const AUTOSCALER = parse(readFileSync('ops/kubernetes/keda.yaml', 'utf8')) as {
  spec: { triggers: { metadata: { query: string } }[] }
}

let receiver: OtlpReceiver
let system: System

beforeAll(async () => {
  receiver = await OtlpReceiver.start()
  Object.assign(process.env, SETTINGS, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url })
  system = await System.start({ engine: 'emulated' })
})
afterAll(async () => {
  for (const name of [...Object.keys(SETTINGS), 'OTEL_EXPORTER_OTLP_ENDPOINT']) delete process.env[name]
  await system?.remove()
  await receiver.stop()
})

async function call(headers: Record<string, string>, change: object = {}): Promise<{ id: string; text: string }> {
  const body = { model: system.dev.model, max_tokens: 8, messages: [{ role: 'user', content: SECRET_TEXT }], ...change }
  const response = await system.fetch('/v1/chat/completions', { method: 'POST', headers, body: JSON.stringify(body) })
  expect(response.status).toBe(200)
  return { id: response.headers.get('x-call-id') ?? '', text: await response.text() }
}

const traceparent = (trace: string, flags = '01') => ({ traceparent: `00-${trace}-${CLIENT_SPAN}-${flags}` })

/** Both the Worker's and the agent's spans are there. */
function wholeTrace(trace: string): Promise<ReceivedSpan[]> {
  const services = new Set<unknown>()
  return eventually(`the trace ${trace}`, () => {
    const spans = receiver.ofTrace(trace)
    for (const { service } of spans) services.add(service)
    return services.size === 2 ? spans : undefined
  }).catch((error: Error) => {
    throw new Error(`${error.message}; spans came from ${[...services].join(', ') || 'no service'}`)
  })
}

describe('the trace of a call', () => {
  it('hangs on the client’s span, with the agent’s spans on the dispatch', async () => {
    const { id } = await call({ ...traceparent(TRACE), 'X-Thread-Id': 'main' }, { stream: true })
    const spans = await wholeTrace(TRACE)
    const named = (name: string, service = 'switchyard') =>
      spans.find((span) => span.name === name && span.service === service) ?? expect.unreachable(name)
    const root = named(`chat ${system.dev.model}`)
    expect(root).toMatchObject({ parent: CLIENT_SPAN, kind: 2, error: false })
    expect(root.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'switchyard',
      'gen_ai.request.model': system.dev.model,
      'gen_ai.request.stream': true,
      'gen_ai.conversation.id': TRACE,
      'switchyard.call': id,
      'switchyard.thread': 'main',
      'switchyard.outcome': 'completed',
    })
    for (const stage of ['identify', 'infer', 'admit', 'lease', 'dispatch', 'first_data', 'stream', 'settle']) {
      expect(named(stage).parent).toBe(root.span)
    }
    const served = named(`chat ${system.dev.model}`, 'switchyard-agent')
    expect(served.parent).toBe(named('dispatch').span)
    expect(named('dispatch')).toMatchObject({ kind: 3, attributes: { 'switchyard.lease.reason': 'pin_created' } })
    expect(served.attributes).toMatchObject({
      'switchyard.call': id,
      'gen_ai.usage.output_tokens': '8',
      'gen_ai.response.finish_reasons': expect.anything(),
    })
    const parts = ['queue', 'prefill', 'decode'].map((part) => named(part, 'switchyard-agent'))
    for (const part of parts) expect(part.parent).toBe(served.span)
    const summed = parts.reduce((total, { duration_ns }) => total + duration_ns, 0n)
    // Each is rounded to a microsecond.
    expect(Number(summed - served.duration_ns)).toBeLessThanOrEqual(3000)
    expect(Number(summed - served.duration_ns)).toBeGreaterThanOrEqual(-3000)
    expect(new Set(spans.map(({ span }) => span)).size).toBe(spans.length)
    expect(spans).toHaveLength(13)
  })

  it('tells why a call failed', async () => {
    const trace = '11111111111111111111111111111111'
    const body = { model: system.dev.model, max_tokens: 100_000, messages: [{ role: 'user', content: SECRET_TEXT }] }
    const init = { method: 'POST', headers: traceparent(trace), body: JSON.stringify(body) }
    expect((await system.fetch('/v1/chat/completions', init)).status).toBe(400)
    const spans = await wholeTrace(trace)
    const root = spans.find(({ parent }) => parent === CLIENT_SPAN)
    expect(root).toMatchObject({ error: true, attributes: { 'error.type': 'context_length_exceeded' } })
  })

  it('is not recorded where the client does not record it, and begins here where there is none', async () => {
    const unrecorded = '22222222222222222222222222222222'
    await call(traceparent(unrecorded, '00'))
    const { id } = await call({ 'X-Program-Id': 'untraced' })
    const root = await eventually('a trace of our own', () =>
      receiver.spans.find(({ parent, attributes }) => parent === null && attributes['switchyard.call'] === id),
    )
    expect(root.attributes['gen_ai.conversation.id']).toBe('untraced')
    expect(receiver.ofTrace(unrecorded)).toEqual([])
  })

  it('was taken by the receiver as it is, with its header', () => {
    expect(receiver.refused).toEqual([])
    expect([...receiver.authorizations]).toEqual(['Bearer collector'])
  })
})

describe('metrics', () => {
  const scrape = async (url: string, token: string | null) => {
    const response = await fetch(
      `${url}/metrics`,
      token === null ? {} : { headers: { authorization: `Bearer ${token}` } },
    )
    return { status: response.status, text: await response.text() }
  }
  const all = async () => {
    const urls = [system.dev.url, ...system.dev.agents.map(({ url }) => url)]
    return (await Promise.all(urls.map((url) => scrape(url, METRICS_TOKEN)))).map(({ text }) => text).join('')
  }
  const series = (text: string) => text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

  it('are read with their token, on agents too, and the control plane’s with the admin key', async () => {
    const agent = system.dev.agents[0]?.url ?? ''
    for (const url of [system.dev.url, agent]) {
      for (const token of [null, 'wrong', system.dev.apiKey]) expect((await scrape(url, token)).status).toBe(401)
      expect((await scrape(url, METRICS_TOKEN)).status).toBe(200)
    }
    expect((await scrape(system.dev.url, system.dev.adminKey)).status).toBe(200)
    expect((await scrape(agent, system.dev.adminKey)).status).toBe(401)
  })

  it('tell of calls, leases, engines and programs', async () => {
    await call({ 'X-Program-Id': 'counted' })
    await eventually('the figures', async () => {
      const text = await all()
      const found = [
        /^switchyard_pool_leases_total\{region="us-east",model="[^"]+",reason="pin_created"\} [1-9]/m,
        /^switchyard_engine_up\{region="us-east",model="[^"]+",engine="us-east-1-e0"\} 1$/m,
        /^switchyard_tenant_programs_running\{tenant="[^"]+"\} [1-9]/m,
        /^switchyard_isolate_calls_total\{dialect="chat",outcome="completed"\} [1-9]/m,
        /^switchyard_agent_ttft_seconds_count\{engine="us-east-1-e0"\} [1-9]/m,
        /^switchyard_agent_tpot_seconds_count\{engine="us-east-1-e0"\} [1-9]/m,
        /^switchyard_agent_itl_seconds_count\{engine="us-east-1-e0"\} [1-9]/m,
        /^switchyard_isolate_ttft_seconds_count\{dialect="chat"\} [1-9]/m,
        /^switchyard_isolate_tpot_seconds_count [1-9]/m,
        /^switchyard_agent_spans_dropped 0$/m,
      ]
      return found.every((pattern) => pattern.test(text)) ? true : undefined
    })
  })

  it('have no more series after calls of many programs, and name none of them', async () => {
    const before = series(await all()).length
    await Promise.all(
      Array.from({ length: 30 }, (_, index) => call({ 'X-Program-Id': `many-${index}`, 'X-App': `a${index}` })),
    )
    const text = await all()
    expect(series(text).length).toBe(before)
    expect(text).not.toContain('many-')
  })

  it('have HELP and TYPE for every family, a unit in its name, and each series once', async () => {
    const { text } = await scrape(system.dev.url, METRICS_TOKEN)
    const names = new Set(series(text).map((line) => line.split(/[{ ]/)[0] ?? ''))
    for (const series_name of names) {
      const of_histogram = series_name.replace(/_(bucket|sum|count)$/, '')
      const name = text.includes(`# TYPE ${of_histogram} histogram`) ? of_histogram : series_name
      expect(text).toContain(`# HELP ${name} `)
      expect(text).toMatch(new RegExp(`# TYPE ${name} (counter|gauge|histogram)\\n`))
      if (name !== series_name) expect(name).toMatch(/_(seconds|bytes|tokens)$/)
      if (text.includes(`# TYPE ${name} counter`)) expect(name).toMatch(/_total$/)
    }
    const keys = series(text).map((line) => line.replace(/ [^ ]+$/, ''))
    expect(new Set(keys).size).toBe(keys.length)
  })

  it('are what the dashboard and the autoscaler ask for, with their labels', async () => {
    const text = await all()
    const known = new Set([...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name))
    const labels = (name: string) =>
      series(text)
        .filter((line) => line.startsWith(`${name}{`))
        .flatMap((line) => [...line.matchAll(/([a-z_]+)="/g)].map(([, label]) => label))
    const panels = DASHBOARD.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    const exprs = [...panels, ...AUTOSCALER.spec.triggers.map(({ metadata }) => metadata.query)]
    expect(exprs.length).toBeGreaterThan(15)
    for (const expr of exprs) {
      const names = expr.match(/switchyard_\w+/g) ?? []
      expect(names, expr).not.toEqual([])
      for (const name of names) expect(known, name).toContain(name.replace(/_(bucket|sum|count)$/, ''))
      for (const [, name = '', matchers = ''] of expr.matchAll(/(switchyard_\w+)\{([^}]*)\}/g)) {
        for (const [, label] of matchers.matchAll(/([a-z_]+)=/g)) expect(labels(name), expr).toContain(label)
      }
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)]
        .flatMap(([, list = '']) => list.split(','))
        .map((l) => l.trim())
      for (const label of grouped) expect(names.flatMap(labels), expr).toContain(label)
    }
  })

  it('fill a dashboard that Grafana can import: one data source, which its user chooses, and no dangling name', () => {
    expect(DASHBOARD).toMatchObject({ uid: 'switchyard', title: 'Switchyard' })
    expect(DASHBOARD.uid.length).toBeLessThanOrEqual(40)
    expect(DASHBOARD.schemaVersion).toBeGreaterThanOrEqual(36)
    // An id belongs to one Grafana: with it an import overwrites the dashboard that has it there.
    expect(DASHBOARD).not.toHaveProperty('id')
    expect(DASHBOARD.templating.list[0]).toMatchObject({ name: 'datasource', type: 'datasource', query: 'prometheus' })
    const chosen = { type: 'prometheus', uid: `\${datasource}` }
    for (const { datasource, targets, gridPos } of DASHBOARD.panels) {
      expect(datasource).toEqual(chosen)
      for (const target of targets) expect(target).toMatchObject({ datasource: chosen, refId: expect.any(String) })
      expect(gridPos).toEqual({ x: expect.any(Number), y: expect.any(Number), w: 8, h: 8 })
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
    }
    expect(new Set(DASHBOARD.panels.map(({ id }) => id)).size).toBe(DASHBOARD.panels.length)
    const variables = DASHBOARD.templating.list.map(({ name }) => name)
    for (const [, name = ''] of JSON.stringify(DASHBOARD.panels).matchAll(/\$\{?(\w+)/g)) {
      expect(name.startsWith('__') || variables.includes(name), name).toBe(true)
    }
  })
})

describe('logs', () => {
  const logText = () => {
    const folder = path.join(system.dataDir, 'logs')
    return readdirSync(folder)
      .map((file) => readFileSync(path.join(folder, file), 'utf8'))
      .join('\n')
  }

  it('have a line per call with its id, outcome and engine', async () => {
    const { id } = await call({ 'X-Program-Id': 'logged' })
    const line = await eventually('the line', () =>
      logText()
        .split('\n')
        .find((one) => one.includes(id)),
    )
    expect(JSON.parse(line)).toMatchObject({
      level: 'info',
      event: 'call',
      call: id,
      program: 'logged',
      status: 200,
      outcome: 'completed',
      error_code: null,
      engine: expect.stringMatching(/-e0$/),
      ms: expect.any(Number),
    })
  })

  it('hold no key, no token, no prompt and no answer, and neither do the spans', async () => {
    const { apiKey, adminKey } = system.dev
    const { text } = await call({ 'X-Program-Id': 'secret', 'Idempotency-Key': 'secret-1' })
    const answer =
      (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]?.message.content ?? ''
    expect(answer.length).toBeGreaterThan(4)
    await fetch(`${system.dev.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}` },
      body: `{"model": "${SECRET_TEXT}`,
    })
    const secrets = readFileSync(path.join(system.dataDir, 'secrets.json'), 'utf8')
    const values = [...secrets.matchAll(/: ?"([^"]+)"/g)].map(([, value]) => value ?? '')
    expect(values.length).toBeGreaterThan(4)
    const hidden = [...values, apiKey, adminKey, SECRET_TEXT, 'Zanzibar', answer, METRICS_TOKEN]
    for (const text of [logText(), receiver.bodies.join('\n')])
      for (const one of hidden) expect(text).not.toContain(one)
  })
})
