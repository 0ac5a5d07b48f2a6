import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { writeHalfPrecision } from './half-precision.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'half-'))
afterAll(() => rmSync(folder, { recursive: true }))

const number = (value: number, bytes: 4 | 8): Buffer => {
  const buffer = Buffer.alloc(bytes)
  if (bytes === 4) buffer.writeUInt32LE(value)
  else buffer.writeBigUInt64LE(BigInt(value))
  return buffer
}
const text = (value: string): Buffer => Buffer.concat([number(value.length, 8), Buffer.from(value)])
const half = (value: number): Buffer => Buffer.from(new Float16Array([value]).buffer)
const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc((32 - (bytes.length % 32)) % 32)])

function gguf(tensors: readonly { name: string; type: number; data: Buffer }[]): string {
  const pairs = [
    Buffer.concat([text('general.name'), number(8, 4), text('two')]),
    Buffer.concat([text('tokens'), number(9, 4), number(8, 4), number(2, 8), text('a'), text('bc')]),
  ]
  let offset = 0
  const infos = tensors.map(({ name, type, data }) => {
    const info = Buffer.concat([text(name), number(1, 4), number(32, 8), number(type, 4), number(offset, 8)])
    offset += padded(data).length
    return info
  })
  const head = [number(0x46554747, 4), number(3, 4), number(tensors.length, 8), number(pairs.length, 8)]
  const header = padded(Buffer.concat([...head, ...pairs, ...infos]))
  const file = path.join(folder, 'given.gguf')
  writeFileSync(file, Buffer.concat([header, ...tensors.map(({ data }) => padded(data))]))
  return file
}

test('quantized tensors become 16 bits, others and the metadata stay', () => {
  const f32 = Buffer.from(new Float32Array(32).fill(0.25).buffer)
  const q8 = Buffer.concat([half(0.5), Buffer.from(Int8Array.from({ length: 32 }, (_, at) => at - 16).buffer)])
  const q4 = Buffer.concat([half(2), half(-1), Buffer.from(Array.from({ length: 16 }, (_, at) => at + 16 * (15 - at)))])
  const to = path.join(folder, 'half.gguf')
  const from = gguf([
    { name: 'a', type: 0, data: f32 },
    { name: 'b', type: 8, data: q8 },
    { name: 'c', type: 3, data: q4 },
  ])
  writeHalfPrecision(from, to)
  const [given, made] = [readFileSync(from), readFileSync(to)]
  const infos = given.indexOf(text('a'), given.indexOf('bc'))
  expect(made.subarray(0, infos)).toEqual(given.subarray(0, infos))
  // Data begins where it began: the header is as long as before.
  const data = made.length - 128 - 64 - 64
  expect(data % 32).toBe(0)
  expect(made.subarray(data, data + 128)).toEqual(f32)
  const values = (at: number) => [
    ...new Float16Array(made.buffer.slice(made.byteOffset + at, made.byteOffset + at + 64)),
  ]
  expect(values(data + 128)).toEqual(Array.from({ length: 32 }, (_, at) => (at - 16) / 2))
  expect(values(data + 192)).toEqual([
    ...Array.from({ length: 16 }, (_, at) => 2 * at - 1),
    ...Array.from({ length: 16 }, (_, at) => 2 * (15 - at) - 1),
  ])
})

test('other types and other files are refused', () => {
  const to = path.join(folder, 'none.gguf')
  const q6 = gguf([{ name: 'a', type: 14, data: Buffer.alloc(64) }])
  expect(() => writeHalfPrecision(q6, to)).toThrow(/type 14/)
  const other = path.join(folder, 'other')
  writeFileSync(other, Buffer.alloc(64))
  expect(() => writeHalfPrecision(other, to)).toThrow(/no GGUF/)
})
