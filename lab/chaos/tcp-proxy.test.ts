import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { TcpProxy } from './tcp-proxy.ts'

interface Line {
  proxy: TcpProxy
  near: Socket
  far: Socket
  /** What the near side was told, in order. */
  told: string[]
}

/** A wire with one connection through it, and the sockets at its ends. */
async function line(): Promise<Line> {
  const { promise: accepted, resolve } = Promise.withResolvers<Socket>()
  const server = createServer(resolve)
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const proxy = await TcpProxy.open({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  const near = connect(proxy.port, '127.0.0.1')
  const told: string[] = []
  near.on('data', (bytes) => told.push(String(bytes)))
  near.on('end', () => told.push('end'))
  near.on('error', () => told.push('error'))
  const far = await accepted
  far.on('error', () => undefined)
  onTestFinished(async () => {
    near.destroy()
    far.destroy()
    await proxy.close()
    await new Promise((closed) => server.close(closed))
  })
  return { proxy, near, far, told }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

test.each([
  ['ends in order', (far: Socket) => far.end(), ['end']],
  ['sends and ends', (far: Socket) => far.end('last'), ['last', 'end']],
  ['is reset', (far: Socket) => far.resetAndDestroy(), ['error']],
])('a frozen wire tells nothing of a side that %s, until it is open again', async (_, act, expected) => {
  const { proxy, far, told } = await line()
  proxy.set('frozen')
  act(far)
  await sleep(100)
  expect(told).toEqual([])
  proxy.set('open')
  await expect.poll(() => told).toEqual(expected)
})

test('a frozen wire keeps what was under way on it', async () => {
  const { proxy, near, far } = await line()
  const arrived: string[] = []
  far.on('data', (bytes) => arrived.push(String(bytes)))
  // Long enough that a busy machine freezes the wire before the bytes are due.
  proxy.delay_ms = 2000
  near.end('late')
  far.on('end', () => arrived.push('end'))
  await sleep(20)
  proxy.set('frozen')
  await sleep(2300)
  expect(arrived).toEqual([])
  proxy.set('open')
  await expect.poll(() => arrived).toEqual(['late', 'end'])
})

test('a cut wire resets what is open and refuses what comes', async () => {
  const { proxy, told } = await line()
  proxy.set('cut')
  await expect.poll(() => told).toEqual(['error'])
  const refused = connect(proxy.port, '127.0.0.1')
  await new Promise((resolve) => refused.once('error', resolve))
})

test.each([
  ['goes on when the wire is open', 'open' as const, ['1\n\n2\n\n', '3\n\n4\n\n', 'end']],
  ['is reset when the wire is cut', 'cut' as const, ['1\n\n2\n\n', 'error']],
])('an answer in one piece is held after so many events, and %s', async (_, then, expected) => {
  const { proxy, near, far, told } = await line()
  proxy.holdAfter(2, 'this')
  near.write('I ask for this')
  far.once('data', () => far.end('1\n\n2\n\n3\n\n4\n\n'))
  await expect.poll(() => told).toEqual(expected.slice(0, 1))
  await sleep(100)
  expect(told).toEqual(expected.slice(0, 1))
  proxy.set(then)
  await expect.poll(() => told).toEqual(expected)
})

test.each([
  ['with no more events', 2, 'this'],
  ['to another request', 1, 'that'],
])('an answer %s is whole', async (_, events, asked) => {
  const { proxy, near, far, told } = await line()
  proxy.holdAfter(events, asked)
  near.write('I ask for this')
  far.once('data', () => far.end('1\n\n2\n\n'))
  await expect.poll(() => told).toEqual(['1\n\n2\n\n', 'end'])
})

test('what was to be held and was not is whole after the wire was set', async () => {
  const { proxy, near, far, told } = await line()
  proxy.holdAfter(1, 'this')
  proxy.set('open')
  near.write('I ask for this')
  far.once('data', () => far.end('1\n\n2\n\n'))
  await expect.poll(() => told).toEqual(['1\n\n2\n\n', 'end'])
})
