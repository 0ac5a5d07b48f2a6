/**
 * A server with `/v1/models` and `/v1/chat/completions` and nothing else, for trying `npm run up -- --url` on the least that a
 * server can be: node lab/plain-server.ts [--port 8123] [--seats 2] [--step-ms 20] [--models a,b]
 */
import { parseArgs } from 'node:util'
import { PlainServer } from '../gpu-agent/src/fronts/attached/testing/plain-server.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    seats: { type: 'string', default: '2' },
    'step-ms': { type: 'string', default: '20' },
    models: { type: 'string', default: 'plain' },
  },
})
const server = new PlainServer({
  models: values.models.split(','),
  seats: Number(values.seats),
  step_ms: Number(values['step-ms']),
})
await server.listen(Number(values.port))
console.log(JSON.stringify({ event: 'ready', url: server.url }))
