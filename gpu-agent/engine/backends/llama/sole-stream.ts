/**
 * Makes the saved state of a sequence one that a context with a single sequence loads. llama.cpp (as in node-llama-cpp
 * 3.22.1) keeps the KV of each sequence in a stream of its own and writes
 *
 *     magic, version, tokens n, n token ids, streams s, then for each stream its number of cells and, if any, the cells
 *
 * all numbers in 32 bits. Only the saved sequence's stream has cells, but a context with another number of streams refuses
 * the state. So the empty streams are cut out. A file that reads otherwise is refused before it is changed.
 */
import type { FileHandle } from 'node:fs/promises'

const NUMBER_BYTES = 4
/** Magic, version, number of tokens. */
const TOKENS_AT = 2 * NUMBER_BYTES
const HEAD_BYTES = 3 * NUMBER_BYTES
const MOVED_BYTES = 1 << 20

export async function keepSoleStream(file: FileHandle, tokens: number): Promise<void> {
  if ((await readNumber(file, TOKENS_AT)) !== tokens) throw new Error('a saved sequence has other tokens')
  const streams_at = HEAD_BYTES + tokens * NUMBER_BYTES
  const streams = await readNumber(file, streams_at)
  const first_at = streams_at + NUMBER_BYTES
  for (let stream = 0; stream < streams; stream++) {
    const cells = await readNumber(file, first_at + stream * NUMBER_BYTES)
    if (cells === 0) continue
    if (cells !== tokens) throw new Error('a saved sequence has other cells than tokens')
    const behind = (streams - 1 - stream) * NUMBER_BYTES
    return moveBack(file, first_at + stream * NUMBER_BYTES, first_at, behind)
  }
  throw new Error('a saved sequence has no cells')
}

/** Moves what begins at `from`, less the last `dropped` bytes, to `to`, and makes it the end of the file's `streams: 1`. */
async function moveBack(file: FileHandle, from: number, to: number, dropped: number): Promise<void> {
  const end = (await file.stat()).size - dropped
  const buffer = Buffer.allocUnsafe(Math.min(MOVED_BYTES, end - from))
  let moved = 0
  while (from + moved < end) {
    const length = Math.min(buffer.length, end - from - moved)
    const { bytesRead } = await file.read(buffer, 0, length, from + moved)
    if (bytesRead === 0) throw new Error('a saved sequence ends early')
    await file.write(buffer, 0, bytesRead, to + moved)
    moved += bytesRead
  }
  const one = Buffer.alloc(NUMBER_BYTES)
  one.writeUInt32LE(1)
  await file.write(one, 0, NUMBER_BYTES, to - NUMBER_BYTES)
  await file.truncate(to + moved)
}

async function readNumber(file: FileHandle, position: number): Promise<number> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(NUMBER_BYTES), 0, NUMBER_BYTES, position)
  if (bytesRead < NUMBER_BYTES) throw new Error('a saved sequence ends early')
  return buffer.readUInt32LE(0)
}
