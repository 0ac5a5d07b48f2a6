/** Where a piece of a file's contents lies, and how long it is. A file is a list of parts. */
import { z } from 'zod'
import { Count } from '../../protocol/index.ts'

/** `name`: among the parts of the tenant, `OBJECT/NUMBER`. */
export const FilePart = z.object({ name: z.string(), bytes: Count })
export type FilePart = z.infer<typeof FilePart>
