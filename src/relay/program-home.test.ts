/** Where a program's actor lives, and what a call pays that comes from far away from it. */
import { describe, expect, it } from 'vitest'
import { HOME_HEADER, HOMES, programHome } from './program-home.ts'
import { runCall } from './run-call.ts'
import { ADMITTED, answering, chat, failureOf, PROGRAM, world } from './testing/world.ts'

const named = (home: string) => ({ ...PROGRAM, [HOME_HEADER]: home })

describe(`the header ${HOME_HEADER}`, () => {
  it('takes Cloudflare’s location hints and nothing else', () => {
    for (const home of HOMES) expect(programHome(new Headers({ [HOME_HEADER]: home.toUpperCase() }))).toBe(home)
    for (const home of ['', 'eu', 'enam,weur', 'us-east']) {
      expect(programHome(new Headers({ [HOME_HEADER]: home }))).toBe(false)
    }
    expect(programHome(new Headers())).toBeNull()
  })

  it('says where the actor is created when the call opens a program', async () => {
    const asked: unknown[] = []
    const it = world({ engines: { e0: answering('x') } })
    const { program } = it.deps
    const deps = {
      ...it.deps,
      program: (...args: Parameters<typeof program>) => {
        asked.push(args[2])
        return program(...args)
      },
    }
    await (await runCall(chat({}, named('apac')), 'chat', deps)).text()
    await (await runCall(chat({}, PROGRAM), 'chat', deps)).text()
    await it.settled()
    expect(asked.filter((home) => home !== undefined)).toEqual(['apac', null])
  })

  it('is refused with a value that no place has', async () => {
    const it = world({ engines: { e0: answering('x') } })
    const response = await runCall(chat({}, named('mars')), 'chat', it.deps)
    expect(response.status).toBe(400)
    expect((await failureOf(response)).code).toBe('invalid_value')
    expect(it.said).toEqual([])
  })
})

describe('a call whose program’s actor is a round trip away', () => {
  const FAR_MS = 40

  /** What was asked, and what the actor had answered by then. */
  async function asked(prompt: string): Promise<string[]> {
    const order: string[] = []
    const it = world({
      engines: { e0: answering('x') },
      program: {
        admit: async () => {
          order.push('admit')
          await new Promise((resolve) => setTimeout(resolve, FAR_MS))
          order.push('admitted')
          return ADMITTED
        },
      },
    })
    const { pool } = it.deps
    const deps = {
      ...it.deps,
      pool: (...args: Parameters<typeof pool>) => {
        if (!order.includes('lease')) order.push('lease')
        return pool(...args)
      },
    }
    await (await runCall(chat({ messages: [{ role: 'user', content: prompt }] }, PROGRAM), 'chat', deps)).text()
    return order
  }

  it('pays it once: beside the lease for a short prompt, before it for a long one', async () => {
    expect(await asked('short')).toEqual(['admit', 'lease', 'admitted'])
    expect(await asked('long '.repeat(4_000))).toEqual(['admit', 'admitted', 'lease'])
  })
})
