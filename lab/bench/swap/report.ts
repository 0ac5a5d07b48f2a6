/** What tools/bench_swap writes, as far as it is drawn. */
import { z } from 'zod'

const Case = z.object({
  shape: z.string(),
  layout: z.string(),
  block_tokens: z.int(),
  tokens: z.int(),
  calls: z.int(),
  direction: z.enum(['out', 'in']),
  method: z.string(),
  bytes: z.int(),
  compute_stream_ms: z.number(),
  done_ms: z.number(),
})

const Report = z.object({
  format: z.literal(1),
  measured_at: z.string(),
  meaningful: z.boolean(),
  device: z.object({ name: z.string() }),
  link: z.object({ out_gb_per_s: z.number(), in_gb_per_s: z.number() }),
  cases: z.array(Case).min(1),
})

export type SwapReport = z.infer<typeof Report>
export type SwapCase = z.infer<typeof Case>

export function swapReport(text: string): { ok: true; report: SwapReport } | { ok: false; reason: string } {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    return { ok: false, reason: String(error) }
  }
  const report = Report.safeParse(parsed)
  return report.success ? { ok: true, report: report.data } : { ok: false, reason: z.prettifyError(report.error) }
}
