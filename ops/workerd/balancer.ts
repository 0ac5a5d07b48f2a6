/** Connections in turn to the processes that accept one, as a TCP balancer in front of several machines does. */
import { connect, createServer, type Server, type Socket } from 'node:net'

/** Resolves once it listens. `ports`: of the processes, on this machine. */
export function startBalancer(address: { host: string; port: number }, ports: readonly number[]): Promise<Server> {
  let turn = 0
  // A streamed token does not wait for the next one, and a side that has sent all may still read.
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    client.on('error', () => client.destroy())
    const order = ports.map((_, index) => ports[(turn + index) % ports.length] ?? 0)
    turn += 1
    reach(client, order)
  })
  return new Promise((resolve, reject) => {
    // Also later: without files for another connection it goes on with those that it has.
    server.on('error', reject)
    server.listen(address.port, address.host, () => resolve(server))
  })
}

function reach(client: Socket, [port, ...others]: readonly number[]): void {
  if (port === undefined) {
    client.destroy()
    return
  }
  const upstream = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true })
  upstream.once('error', () => reach(client, others))
  upstream.once('connect', () => {
    if (client.destroyed) return void upstream.destroy()
    upstream.removeAllListeners('error').on('error', () => client.destroy())
    client.once('close', () => upstream.destroy())
    client.pipe(upstream).pipe(client)
  })
}
