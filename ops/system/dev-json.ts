/** dev.json: how a running system describes itself. Holds keys, so mode 0600; written whole; gone when nothing runs. */
import { z } from 'zod'
import { readFileIfAny, writeFileAtomic } from './atomic-file.ts'

export const DevJson = z.object({
  url: z.string(),
  apiKey: z.string(),
  adminKey: z.string(),
  /** The supervisor: ending it ends everything. */
  pid: z.number().int(),
  controlPlanePid: z.number().int(),
  policy: z.string(),
  model: z.string(),
  /** All that are offered, where there are several. */
  models: z.array(z.string()).optional(),
  /** Of an engine that makes embeddings and writes no text. Default: text. */
  serves: z.literal('embeddings').optional(),
  engine: z.enum(['embedded', 'emulated', 'scripted', 'vllm', 'openai']),
  agents: z.array(z.object({ id: z.string(), region: z.string(), url: z.string(), pid: z.number().int() })),
})
export type DevJson = z.infer<typeof DevJson>

export async function writeDevJson(file: string, value: DevJson): Promise<void> {
  await writeFileAtomic(file, `${JSON.stringify(value, null, 2)}\n`)
}

export function readDevJson(file: string): Promise<DevJson | null> {
  return read(file, DevJson)
}

/** production.json: how a production system describes itself, without a secret. It stays when nothing runs. */
const ProductionJson = z.object({ url: z.string(), pid: z.number().int(), controlPlanePid: z.number().int() })
export type ProductionJson = z.infer<typeof ProductionJson>

export async function writeProductionJson(file: string, value: ProductionJson): Promise<void> {
  await writeFileAtomic(file, `${JSON.stringify(value, null, 2)}\n`)
}

export function readProductionJson(file: string): Promise<ProductionJson | null> {
  return read(file, ProductionJson)
}

async function read<T>(file: string, schema: z.ZodType<T>): Promise<T | null> {
  const text = await readFileIfAny(file)
  if (text === null) return null
  const parsed = schema.safeParse(JSON.parse(text))
  if (!parsed.success)
    throw new Error(`${file} is not a description of a running system: ${z.prettifyError(parsed.error)}`)
  return parsed.data
}
