import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { freePort } from '../system/free-port.ts'
import { startBalancer } from './balancer.ts'

const servers: { close(): unknown }[] = []
afterAll(() => {
  for (const server of servers) server.close()
})

async function instance(name: string): Promise<{ server: Server; port: number }> {
  const server = createServer((_, response) => response.writeHead(200, { connection: 'close' }).end(name))
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { server, port: (server.address() as AddressInfo).port }
}

test('a large answer at the end of a connection arrives whole, also for a client that has sent all and half closed', async () => {
  const bytes = 4_000_000
  const server = createServer((_, response) =>
    response.writeHead(200, { connection: 'close' }).end(Buffer.alloc(bytes)),
  )
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const port = await freePort()
  servers.push(await startBalancer({ host: '127.0.0.1', port }, [(server.address() as AddressInfo).port]))
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  client.end('GET / HTTP/1.1\r\nHost: one\r\n\r\n')
  let received = 0
  for await (const chunk of client) received += (chunk as Buffer).length
  expect(received).toBeGreaterThan(bytes)
})

test('connections go to the instances in turn, and past one that refuses', async () => {
  const [first, second] = [await instance('first'), await instance('second')]
  const port = await freePort()
  servers.push(await startBalancer({ host: '127.0.0.1', port }, [first.port, second.port]))
  const ask = async () => (await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } })).text()
  expect([await ask(), await ask(), await ask()].sort()).toEqual(['first', 'first', 'second'])
  await new Promise((resolve) => second.server.close(resolve))
  expect([await ask(), await ask()]).toEqual(['first', 'first'])
})
