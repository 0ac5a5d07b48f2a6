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
  engine: z.enum(['embedded', 'emulated']),
  agents: z.array(z.object({ id: z.string(), region: z.string(), url: z.string(), pid: z.number().int() })),
})
export type DevJson = z.infer<typeof DevJson>

export async function writeDevJson(file: string, value: DevJson): Promise<void> {
  await writeFileAtomic(file, `${JSON.stringify(value, null, 2)}\n`)
}

export async function readDevJson(file: string): Promise<DevJson | null> {
  const text = await readFileIfAny(file)
  if (text === null) return null
  const parsed = DevJson.safeParse(JSON.parse(text))
  if (!parsed.success)
    throw new Error(`${file} is not a description of a running system: ${z.prettifyError(parsed.error)}`)
  return parsed.data
}
