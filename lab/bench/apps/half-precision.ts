/**
 * The same weights at another precision: a GGUF (version 3) whose quantized tensors are written in 16 bits. So one shipped model gives two of different
 * speed, without a download. Q4_1 and Q8_0 are read, which is what the shipped model has; 32 bits stay as they are.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'

const MAGIC = 0x46554747
const VERSION = 3
const TYPE = { f32: 0, f16: 1, q4_1: 3, q8_0: 8 } as const
const ALIGNMENT = 32
/** Values that share a scale. */
const BLOCK = 32
/** Bytes of a metadata value by its type; strings (8) and arrays (9) have lengths of their own. */
const VALUE_BYTES: Readonly<Record<number, number>> = {
  ...{ 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 },
}
const STRING = 8
const ARRAY = 9

interface Tensor {
  /** Its name and dimensions as they are in the file. */
  head: Buffer
  values: number
  type: number
  offset: number
}

class Reader {
  readonly bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  u32(): number {
    this.at += 4
    return this.bytes.readUInt32LE(this.at - 4)
  }

  u64(): number {
    this.at += 8
    return Number(this.bytes.readBigUInt64LE(this.at - 8))
  }

  skipString(): void {
    const length = this.u64()
    this.at += length
  }

  skipValue(type: number): void {
    if (type === STRING) {
      this.skipString()
      return
    }
    if (type === ARRAY) {
      const of = this.u32()
      const count = this.u64()
      for (let item = 0; item < count; item += 1) this.skipValue(of)
      return
    }
    const bytes = VALUE_BYTES[type]
    if (bytes === undefined) throw new RangeError(`a metadata value of the unknown type ${type}`)
    this.at += bytes
  }
}

/** Throws RangeError for a file that is no GGUF of version 3, or has tensors of other types. */
export function writeHalfPrecision(from: string, to: string): void {
  const file = new Reader(readFileSync(from))
  if (file.u32() !== MAGIC || file.u32() !== VERSION) throw new RangeError(`${from} is no GGUF of version ${VERSION}`)
  const tensors = file.u64()
  const pairs = file.u64()
  for (let pair = 0; pair < pairs; pair += 1) {
    file.skipString()
    file.skipValue(file.u32())
  }
  const metadata = file.bytes.subarray(0, file.at)
  const listed = Array.from({ length: tensors }, () => readTensor(file))
  const data = aligned(file.at)
  const infos: Buffer[] = []
  let offset = 0
  for (const tensor of listed) {
    const { head, type, values } = tensor
    const info = Buffer.alloc(12)
    info.writeUInt32LE(targetOf(type), 0)
    info.writeBigUInt64LE(BigInt(offset), 4)
    infos.push(head, info)
    offset = aligned(offset + values * (targetOf(type) === TYPE.f32 ? 4 : 2))
  }
  const header = Buffer.concat([metadata, ...infos])
  const out = openSync(to, 'w')
  try {
    writeAligned(out, header)
    for (const tensor of listed) writeAligned(out, converted(file.bytes, data, tensor))
  } finally {
    closeSync(out)
  }
}

function readTensor(file: Reader): Tensor {
  const from = file.at
  file.skipString()
  const dimensions = file.u32()
  let values = 1
  for (let dimension = 0; dimension < dimensions; dimension += 1) values *= file.u64()
  const head = file.bytes.subarray(from, file.at)
  return { head, values, type: file.u32(), offset: file.u64() }
}

function targetOf(type: number): number {
  if (type === TYPE.f32 || type === TYPE.f16) return type
  if (type === TYPE.q4_1 || type === TYPE.q8_0) return TYPE.f16
  throw new RangeError(`a tensor of type ${type}; Q4_1, Q8_0, F16 and F32 can be converted`)
}

function converted(bytes: Buffer, data: number, { values, type, offset }: Tensor): Buffer {
  const from = data + offset
  if (type === TYPE.f32) return bytes.subarray(from, from + values * 4)
  if (type === TYPE.f16) return bytes.subarray(from, from + values * 2)
  const half = new Float16Array(values)
  if (type === TYPE.q8_0) fromQ8(bytes, from, half)
  else fromQ4(bytes, from, half)
  return Buffer.from(half.buffer)
}

/** A block: a scale in 16 bits, and 32 signed bytes. */
function fromQ8(bytes: Buffer, from: number, into: Float16Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  for (let block = 0; block < into.length / BLOCK; block += 1) {
    const at = from + block * (2 + BLOCK)
    const scale = view.getFloat16(at, true)
    for (let value = 0; value < BLOCK; value += 1) into[block * BLOCK + value] = scale * view.getInt8(at + 2 + value)
  }
}

/** A block: scale and minimum in 16 bits, and 16 bytes whose low halves are the first 16 values. */
function fromQ4(bytes: Buffer, from: number, into: Float16Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const half = BLOCK / 2
  for (let block = 0; block < into.length / BLOCK; block += 1) {
    const at = from + block * (4 + half)
    const scale = view.getFloat16(at, true)
    const least = view.getFloat16(at + 2, true)
    for (let pair = 0; pair < half; pair += 1) {
      const byte = view.getUint8(at + 4 + pair)
      into[block * BLOCK + pair] = scale * (byte % 16) + least
      into[block * BLOCK + half + pair] = scale * (byte >> 4) + least
    }
  }
}

function writeAligned(file: number, bytes: Buffer): void {
  writeSync(file, bytes)
  const gap = aligned(bytes.length) - bytes.length
  if (gap > 0) writeSync(file, Buffer.alloc(gap))
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT) * ALIGNMENT
}
