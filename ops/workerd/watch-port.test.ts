import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test, vi } from 'vitest'
import { untilRefused } from './watch-port.ts'

test.each(['127.0.0.1', '0.0.0.0'])(
  'a port of %s is watched as long as something listens, and no longer',
  async (host) => {
    let seen = 0
    const server = createServer((socket) => {
      seen += 1
      socket.resume()
    })
    server.listen(0, host)
    await once(server, 'listening')
    let is_over = false
    const over = untilRefused((server.address() as AddressInfo).port, host, { look_ms: 1, refused_ms_max: 5 }).then(
      () => {
        is_over = true
      },
    )
    await vi.waitUntil(() => seen > 50, { timeout: 60_000 })
    expect(is_over).toBe(false)
    server.close()
    await over
  },
)
