/** Connections in turn to the instances that accept one, as a TCP balancer in front of a cluster does. */
import { connect, createServer, type Server, type Socket } from 'node:net'

/** Resolves once it listens. `ports`: of the instances, on this machine. */
export function startBalancer(address: { host: string; port: number }, ports: readonly number[]): Promise<Server> {
  let turn = 0
  const server = createServer((client) => {
    client.on('error', () => client.destroy())
    const order = ports.map((_, index) => ports[(turn + index) % ports.length] ?? 0)
    turn += 1
    reach(client, order)
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(address.port, address.host, () => resolve(server))
  })
}

function reach(client: Socket, [port, ...others]: readonly number[]): void {
  if (port === undefined) {
    client.destroy()
    return
  }
  const instance = connect(port, '127.0.0.1')
  instance.once('error', () => reach(client, others))
  instance.once('connect', () => {
    instance.removeAllListeners('error').on('error', () => client.destroy())
    client.once('close', () => instance.destroy())
    instance.once('close', () => client.destroy())
    client.pipe(instance).pipe(client)
  })
}
