/** A folder over HTTP on this machine, for a browser that opens what was built. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
}

export interface ServedFolder {
  url: string
  close(): void
}

export async function serveFolder(folder: string): Promise<ServedFolder> {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const file = path.join(folder, path.posix.normalize(decodeURIComponent(pathname)))
    const found = await stat(file).catch(() => null)
    const whole = found?.isDirectory() ? path.join(file, 'index.html') : file
    const there = found !== null && (await stat(whole).catch(() => null)) !== null
    if (!there) return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': TYPES[path.extname(whole)] ?? 'application/octet-stream' })
    createReadStream(whole).pipe(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() }
}
