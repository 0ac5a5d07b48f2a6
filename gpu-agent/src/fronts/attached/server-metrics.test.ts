import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../testing/harness.ts'
import type { LoadReport } from './reported-load.ts'
import { loadOfMetrics, METRICS_BYTES_MAX, MetricsPoll } from './server-metrics.ts'

const TEXT = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.125
`

test('the load is read from vLLM’s own names, and from no name that begins alike', () => {
  expect(loadOfMetrics(TEXT, 800)).toEqual({ running: 3, waiting: 2, queued_tokens: 0, kv_used_tokens: 100 })
  expect(loadOfMetrics('python_info 1\n', 800)).toBeNull()
})

test('an answer may have its bound of bytes, one more is refused, and the operator hears of it once', async () => {
  let bytes = METRICS_BYTES_MAX
  let asked = 0
  const server = createServer((_, response) => {
    asked += 1
    response.end(TEXT + ' '.repeat(bytes - TEXT.length))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const loads: LoadReport[] = []
  const failures: string[] = []
  const poll = new MetricsPoll({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ api_key: null, kv_capacity_tokens: 800, wanted: () => true },
    reported: (load) => loads.push(load),
    failed: (reason) => failures.push(reason),
    poll_ms: 5,
  })
  onTestFinished(() => {
    poll.stop()
    server.closeAllConnections()
    server.close()
  })
  await until(() => loads.length > 0)
  bytes += 1
  await until(() => failures.length === 1)
  expect(failures[0]).toContain(`${METRICS_BYTES_MAX} bytes`)
  const before = asked
  await until(() => asked > before + 2)
  expect(failures).toHaveLength(1)
})
