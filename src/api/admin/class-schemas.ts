/** What is known about a class of programs, as OpenAPI schemas. */
import { z } from '@hono/zod-openapi'
import { Objective } from '../../protocol/objective.ts'

const Quantile = z.number().nonnegative().nullable()
const Quantiles = z
  .object({ p10: Quantile, p50: Quantile, p90: Quantile, p99: Quantile })
  .openapi('ClassQuantiles', { description: 'Of ended programs, recent ones counting for more. Null: none' })
export type Quantiles = z.infer<typeof Quantiles>

export const ClassJson = z
  .object({
    tenant: z.string(),
    class: z.string(),
    ends: z.number().int().nonnegative().openapi({ description: 'Programs that have ended since the class is known' }),
    updated_at: z.iso.datetime(),
    output_tokens: Quantiles,
    calls: Quantiles,
    path_s: Quantiles.openapi({ description: 'Longest chain of calls, modelled service' }),
    service_s: Quantiles.openapi({ description: 'Modelled service' }),
    tool_s: Quantiles.openapi({ description: 'From the end of a call’s last parent to its start, summed over calls' }),
    prompt_tokens_per_output_token: z
      .number()
      .nonnegative()
      .openapi({ description: 'Prompt tokens that calls after the first added, for each token of output' }),
  })
  .openapi('ProgramClass')

const IndexPoint = z.object({
  output_tokens: z.number().int().nonnegative().openapi({ description: 'Output of the program so far' }),
  index: z.number().nonnegative().openapi({ description: 'Lower runs first. Its octave, in quarters, is the rank' }),
  expected_remaining_tokens: z
    .number()
    .nonnegative()
    .openapi({ description: 'Output that is still to come, on average' }),
})

export const ClassToolJson = z
  .object({
    name: z.string().nullable().openapi({ description: 'Null: the answer named none, or `kind` is `other`' }),
    kind: z.enum(['named', 'unnamed', 'other']).openapi({
      description:
        'unnamed: what comes between two calls without a tool’s name. other: tools of which too few uses are known',
    }),
    uses: z.number().int().nonnegative(),
    duration_s: Quantiles.openapi({ description: 'From the end of a call to the next one' }),
    answer_tokens: Quantiles,
  })
  .openapi('ClassTool')

export const ClassIndexJson = ClassJson.extend({
  tools: z.array(ClassToolJson).openapi({
    description: 'What programs call between their calls, the most used first. Recent uses count for more',
  }),
  objective: Objective,
  index: z.array(IndexPoint).openapi({
    description:
      'How `learned` orders a program of the class whose context is at hand and that has no open call. A point holds up to the next',
  }),
}).openapi('ProgramClassIndex')
