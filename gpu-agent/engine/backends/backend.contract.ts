/**
 * What every backend keeps. Each backend's test runs this suite; so does the test of another one that is added. Plans are made by
 * hand, as a scheduler would make them.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { engineCall } from '../testing/calls.ts'
import type { Backend, Sampling, SlotOperation, StepWork } from '../types.ts'

/** Tokens that any model's vocabulary has. */
const prompt = (first: number, tokens: number): number[] => Array.from({ length: tokens }, (_, at) => 40 + first + at)
const GREEDY = { temperature: 0, top_p: 1, seed: 1 }
const OUTPUT_TOKENS = 6

/** `create`: with at least 3 slots of at least 64 tokens, or more where they are asked for. */
export function backendContract(name: string, create: () => Promise<Backend>): void {
  describe(`${name} keeps the contract of backends:`, () => {
    let backend: Backend
    let step: number
    let leases: number

    beforeEach(async () => {
      backend = await create()
      step = 0
      leases = 0
    })
    afterEach(() => backend.dispose())

    interface Call {
      lease: string
      tokens: number[]
      computed: number
      ended: boolean
    }

    function admit(tokens: readonly number[], sampling: Sampling = GREEDY, resumed_tokens = 0): Call {
      leases += 1
      const lease = `lease-${leases}`
      const max_output_tokens = 20 - resumed_tokens
      backend.admit(engineCall({ lease, prompt: tokens, sampling, resumed_tokens, max_output_tokens }))
      return { lease, tokens: [...tokens], computed: 0, ended: false }
    }

    /** Each call computes what is missing, at most `chunk` tokens, in the slot that it is listed under. */
    async function advance(
      calls: Readonly<Record<number, Call>>,
      { chunk = 16, operations = [] }: { chunk?: number; operations?: readonly SlotOperation[] } = {},
    ): Promise<void> {
      const listed = Object.entries(calls).map(([slot, call]) => ({ slot: Number(slot), call }))
      const work = listed.map(({ slot, call }): StepWork => {
        const to = Math.min(call.tokens.length, call.computed + chunk)
        return { lease: call.lease, slot, from: call.computed, to, samples: to === call.tokens.length }
      })
      const { sampled, failed, moved_us } = await backend.execute({ step: step++, operations, work })
      expect(failed).toBeUndefined()
      const moved = operations.flatMap((one) => (one.op === 'save' || one.op === 'restore' ? [one.image] : []))
      expect(new Set(moved_us?.keys())).toEqual(new Set(moved))
      for (const us of moved_us?.values() ?? []) expect(us).toBeGreaterThan(0)
      expect([...sampled.keys()].sort()).toEqual(work.flatMap(({ lease, samples }) => (samples ? [lease] : [])).sort())
      for (const [index, { call }] of listed.entries()) {
        call.computed = work[index]?.to ?? 0
        const token = sampled.get(call.lease)
        if (token === undefined) continue
        call.tokens.push(token.token)
        call.ended = token.end
      }
    }

    async function text(slot: number, call: Call, chunk = 16): Promise<number[]> {
      const prompt_tokens = call.tokens.length
      while (!call.ended && call.tokens.length < prompt_tokens + OUTPUT_TOKENS)
        await advance({ [slot]: call }, { chunk })
      return call.tokens.slice(prompt_tokens)
    }

    const clear = (slot: number) =>
      backend.execute({ step: step++, operations: [{ op: 'truncate', slot, tokens: 0 }], work: [] })

    it('gives a token to each call that samples, and to no other', async () => {
      const [long, short] = [admit(prompt(0, 20)), admit(prompt(7, 5))]
      await advance({ 0: long, 2: short })
      expect([long.tokens.length, short.tokens.length]).toEqual([20, 6])
      await advance({ 0: long, 2: short })
      expect([long.tokens.length, short.tokens.length]).toEqual([21, 7])
    })

    it('says the same alone, in company, in other chunks and in another slot', async () => {
      const alone = await text(0, admit(prompt(3, 20)))
      await clear(0)
      const [call, other] = [admit(prompt(3, 20)), admit(prompt(9, 11))]
      for (let round = 0; call.tokens.length < 20 + alone.length && round < 60; round++) {
        await advance({ 1: call, 2: other }, { chunk: 7 })
        if (other.ended) break
      }
      expect(call.tokens.slice(20)).toEqual(alone.slice(0, call.tokens.length - 20))
    })

    it('goes on from a prefix that a slot still holds, and computes only the rest', async () => {
      const first = admit(prompt(0, 24))
      await advance({ 0: first }, { chunk: 24 })
      backend.release(first.lease)
      const fresh = await text(1, admit(prompt(0, 32)))
      const second = admit(prompt(0, 32))
      second.computed = 24
      const before = backend.evaluatedTokens()
      await advance({ 0: second }, { chunk: 8 })
      expect(backend.evaluatedTokens() - before).toBe(8)
      expect((await text(0, second)).slice(0, fresh.length - 1)).toEqual(fresh.slice(1))
    })

    it.each<[string, Sampling]>([
      ['greedy', GREEDY],
      ['sampled', { temperature: 1, top_p: 0.95, seed: 7 }],
      ['penalised', { temperature: 1, top_p: 1, seed: 3, frequency_penalty: 1.5, repetition_penalty: 1.3 }],
    ])('goes on with a call that another engine began: %s', async (_, sampling) => {
      const whole = await text(0, admit(prompt(4, 20), sampling))
      for (const resumed of [1, 3, whole.length - 1]) {
        await clear(0)
        const call = admit([...prompt(4, 20), ...whole.slice(0, resumed)], sampling, resumed)
        while (!call.ended && call.tokens.length < 20 + whole.length) await advance({ 0: call }, { chunk: 32 })
        expect(call.tokens.slice(20)).toEqual(whole)
      }
    })

    it('says the same after its KV was dropped and computed again', async () => {
      const whole = await text(0, admit(prompt(5, 20)))
      const call = admit(prompt(5, 20))
      while (!call.ended && call.tokens.length < 20 + 2) await advance({ 1: call })
      call.computed = 10
      const operations: SlotOperation[] = [{ op: 'truncate', slot: 1, tokens: 10 }]
      await advance({ 1: call }, { chunk: 32, operations })
      while (!call.ended && call.tokens.length < 20 + OUTPUT_TOKENS) await advance({ 1: call })
      expect(call.tokens.slice(20)).toEqual(whole)
    })

    it('saves a call, restores it elsewhere and goes on as if it had stayed; copies serve two calls', async () => {
      if (backend.swapCosts() === null) return
      const stayed = await text(0, admit(prompt(2, 20)))
      await clear(0)
      const call = admit(prompt(2, 20))
      await advance({ 0: call }, { chunk: 20 })
      const saved: SlotOperation[] = [{ op: 'save', slot: 0, image: 0, tokens: 20 }]
      await backend.execute({ step: step++, operations: saved, work: [] })
      const restored: SlotOperation[] = [
        { op: 'restore', slot: 2, image: 0, tokens: 20 },
        { op: 'drop_image', image: 0 },
      ]
      await advance({ 2: call }, { operations: restored })
      if (backend.copies_prefixes) {
        const copied = admit(prompt(2, 20))
        copied.computed = 16
        await advance({ 1: copied }, { operations: [{ op: 'copy', from: 2, slot: 1, tokens: 16 }] })
        expect(copied.tokens.slice(20)).toEqual(stayed.slice(0, 1))
      }
      expect(call.tokens.slice(20)).toEqual(stayed.slice(0, 2))
    })

    it('counts the tokens that it computed', async () => {
      const before = backend.evaluatedTokens()
      await advance({ 0: admit(prompt(0, 12)), 1: admit(prompt(4, 20)) })
      expect(backend.evaluatedTokens() - before).toBe(12 + 16)
    })

    it('states constant costs of swapping, or that it cannot swap', () => {
      const costs = backend.swapCosts()
      expect(backend.swapCosts()).toEqual(costs)
      for (const cost of Object.values(costs ?? {})) expect(cost).toBeGreaterThanOrEqual(0)
    })
  })
}
