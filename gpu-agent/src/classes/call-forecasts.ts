/**
 * What is expected of the calls of an agent: what their classes have shown, with what their tickets say. The client's body is
 * asked for nothing but the names of the tools that it offers.
 */
import type { CallForecast } from '../../../src/core/call/forecast.ts'
import { type CallSituation, expectedToolUs, forecastCall } from '../../../src/core/tools/forecast.ts'
import { offeredTools } from '../../../src/core/tools/offered-tools.ts'
import type { TicketClaims } from '../../../src/protocol/index.ts'
import type { Dialect } from '../fronts/engine-front.ts'
import type { KnownClasses } from './known-classes.ts'

type Claims = Pick<TicketClaims, 'tenant' | 'class' | 'position' | 'last_tool' | 'expect_tool_us'>

export class CallForecasts {
  readonly #known: KnownClasses

  constructor(known: KnownClasses) {
    this.#known = known
  }

  /** Null: nothing is known of calls of the tenant. */
  of(claims: Claims, dialect: Dialect, body: unknown): CallForecast | null {
    // No tool follows an embedding.
    if (dialect === 'embeddings') return null
    const { tenant, position, last_tool, expect_tool_us } = claims
    const situation: CallSituation = {
      position: position ?? null,
      last: last_tool ?? null,
      offered: dialect === 'completions' ? null : offeredTools(body),
      expect_tool_us: expect_tool_us ?? null,
    }
    return forecastCall(situation, this.#known.tools(tenant, claims.class))
  }

  /** From the end of a call, whose answer asked for these tools, to the next call. Null: not known. */
  toolUs({ tenant, class: of_class, expect_tool_us }: Claims, names: readonly string[]): number | null {
    const expected_us = expectedToolUs(names, expect_tool_us ?? null, this.#known.tools(tenant, of_class))
    return expected_us === null ? null : Math.round(expected_us)
  }
}
