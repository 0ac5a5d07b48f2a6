/** An OTLP/HTTP receiver: takes traces in JSON as a collector would, and refuses what is not of that shape. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'

const Value = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ boolValue: z.boolean() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
  z.strictObject({ doubleValue: z.number() }),
  z.strictObject({ arrayValue: z.strictObject({ values: z.array(z.unknown()) }) }),
])
const Attributes = z.array(z.strictObject({ key: z.string(), value: Value }))
const Span = z.strictObject({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .optional(),
  name: z.string().min(1),
  kind: z.number().int().min(1).max(5),
  startTimeUnixNano: z.string().regex(/^\d+$/),
  endTimeUnixNano: z.string().regex(/^\d+$/),
  attributes: Attributes,
  status: z.strictObject({ code: z.number() }).optional(),
})
const Traces = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes: Attributes }),
      scopeSpans: z.array(z.strictObject({ scope: z.strictObject({ name: z.string() }), spans: z.array(Span) })),
    }),
  ),
})

export interface ReceivedSpan {
  service: unknown
  trace: string
  span: string
  parent: string | null
  name: string
  kind: number
  duration_ns: bigint
  error: boolean
  attributes: Record<string, unknown>
}

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = []
  /** Everything that was received, as text. */
  readonly bodies: string[] = []
  readonly authorizations = new Set<string | undefined>()
  readonly refused: string[] = []
  readonly #server: Server

  private constructor() {
    this.#server = createServer(async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      this.bodies.push(body)
      this.authorizations.add(request.headers.authorization)
      const traces = request.url === '/v1/traces' ? Traces.safeParse(JSON.parse(body)) : null
      if (traces?.success !== true) {
        this.refused.push(traces === null ? `${request.method} ${request.url}` : z.prettifyError(traces.error))
        response.writeHead(400).end()
        return
      }
      for (const { resource, scopeSpans } of traces.data.resourceSpans) {
        const service = plain(resource.attributes)['service.name']
        for (const { spans } of scopeSpans) for (const span of spans) this.spans.push(received(service, span))
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  }

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver()
    await new Promise<void>((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve))
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  ofTrace(trace: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.trace === trace)
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

function received(service: unknown, span: z.infer<typeof Span>): ReceivedSpan {
  return {
    service,
    trace: span.traceId,
    span: span.spanId,
    parent: span.parentSpanId ?? null,
    name: span.name,
    kind: span.kind,
    duration_ns: BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano),
    error: span.status?.code === 2,
    attributes: plain(span.attributes),
  }
}

function plain(attributes: z.infer<typeof Attributes>): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
