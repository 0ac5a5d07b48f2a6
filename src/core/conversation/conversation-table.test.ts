import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { conversationCall, MESSAGES_MAX } from './conversation-call.ts'
import { BUCKET_MAX, ConversationTable, conversationShard } from './conversation-table.ts'
import { MessageHash } from './message-hash.ts'

const KEY = [3, 5] as const
const LIMITS = { entries_max: 1000, bytes_max: 1e9, age_ms_max: 1000 }

type Message = Record<string, unknown>
const system: Message = { role: 'system', content: 'You are an agent.' }
const user = (content: string): Message => ({ role: 'user', content })
const says = (content: string): Message => ({ role: 'assistant', content })
const uses = (name: string, args: object, id?: string): Message => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ ...(id === undefined ? {} : { id }), function: { name, arguments: JSON.stringify(args) } }],
})
const result = (content: string): Message => ({ role: 'tool', content })

class Player {
  readonly table: ConversationTable
  now_ms = 0
  #calls = 0

  constructor(limits = LIMITS) {
    this.table = new ConversationTable(limits)
  }

  /** A call with these messages and, if given, its answer. */
  call(
    messages: Message[],
    answer?: Message,
    more: { trace?: string; body?: object; id?: string; restrictions?: string } = {},
  ) {
    this.#calls += 1
    const call = more.id ?? `c${this.#calls}`
    const conversation = conversationCall({ messages, ...more.body }, KEY, more.restrictions ?? null)
    if (conversation === null) return expect.unreachable()
    const place = this.table.place({ ...conversation, call, trace: more.trace ?? null }, this.now_ms)
    if (answer !== undefined) this.answered(call, answer)
    return { call, ...place }
  }

  answered(call: string, answer: Message | null): void {
    this.table.answered(call, answer === null ? null : new MessageHash(KEY).answer(answer), this.now_ms)
  }

  awaits(messages: Message[]): boolean {
    const conversation = conversationCall({ messages }, KEY)
    return conversation !== null && this.table.awaitsAnswer({ ...conversation, call: 'x', trace: null })
  }
}

const opening = [system, user('Which city is warmer?')]

describe('a conversation', () => {
  it('is one program, whose calls are a chain', () => {
    const it = new Player()
    const first = it.call(opening, uses('look', { city: 'Paris' }))
    const history = [...opening, uses('look', { city: 'Paris' }), result('18')]
    const second = it.call(history, says('Paris.'))
    const third = it.call([...history, says('Paris.'), user('And Oslo?')])
    expect(first).toMatchObject({ program: 'c1', source: 'conversation', parents: [] })
    expect(second).toMatchObject({ program: 'c1', source: 'conversation', parents: ['c1'] })
    expect(third).toMatchObject({ program: 'c1', parents: ['c2'] })
  })

  it('that nothing continues is a program of its own, also with the same words', () => {
    const it = new Player()
    expect(it.call(opening, says('Paris.')).program).toBe('c1')
    expect(it.call(opening, says('Paris.')).program).toBe('c2')
  })

  it('goes on after its client changed the answer, if only one can be meant', () => {
    const it = new Player()
    it.call(opening, says('Thought: I look it up.'))
    expect(it.call([...opening, says('(edited)'), user('go on')]).program).toBe('c1')
    const other = new Player()
    other.call(opening, says('Thought: one.'))
    other.call(opening, says('Thought: two.'))
    expect(other.call([...opening, says('(edited)'), user('go on')]).program).toBe('c3')
  })

  it('is found past a last message that its client does not keep', () => {
    const it = new Player()
    const reminder = { role: 'system', content: 'Remember the rules.' }
    const answer = says('I would look at the weather report of both of them.')
    it.call([...opening, reminder], answer)
    expect(it.call([...opening, answer, user('Do so.'), reminder])).toMatchObject({ program: 'c1', parents: ['c1'] })
  })

  it('is found by its answers where its beginning was rewritten', () => {
    const it = new Player()
    const answer = says('I would look at the weather report of both of them.')
    it.call(opening, answer)
    const rewritten = [{ role: 'system', content: 'Another hat.' }, ...opening.slice(1), answer, user('Do so.')]
    expect(it.call(rewritten)).toMatchObject({ program: 'c1', source: 'answer', parents: ['c1'] })
  })

  it('that is tried again after a failure stays one program', () => {
    const it = new Player()
    it.call(opening)
    it.answered('c1', null)
    expect(it.call(opening)).toMatchObject({ program: 'c1', parents: null })
  })

  it('under other restrictions is joined only by an answer that agrees', () => {
    const it = new Player()
    it.call(opening, undefined, { restrictions: 'eu' })
    it.answered('c1', null)
    expect(it.call(opening, says('One.')).program).toBe('c2')
    expect(it.call([...opening, says('(edited)'), user('x')], undefined, { restrictions: 'us' }).program).toBe('c3')
    expect(it.call([...opening, says('One.'), user('x')], undefined, { restrictions: 'us' }).program).toBe('c2')
  })

  it('that was compacted begins a program: its opening is another', () => {
    const it = new Player()
    it.call(opening, says('Paris.'))
    expect(it.call([system, user('Summary: they asked for the warmer city.')]).program).toBe('c2')
  })

  it('gets the same place when it is asked for again', () => {
    const it = new Player()
    it.call(opening, says('Paris.'))
    const history = [...opening, says('Paris.'), user('Sure?')]
    const place = it.call(history, undefined, { id: 'again' })
    expect(it.call(history, undefined, { id: 'again' })).toEqual(place)
    expect(it.table.size).toBe(2)
  })
})

describe('equal beginnings', () => {
  it('are told apart by the answers', () => {
    const it = new Player()
    it.call(opening, says('One.'))
    it.call(opening, says('Two.'))
    expect(it.call([...opening, says('Two.'), user('go on')])).toMatchObject({ program: 'c2', source: 'answer' })
    expect(it.call([...opening, says('One.'), user('go on')])).toMatchObject({ program: 'c1', source: 'answer' })
  })

  it('with equal answers are continued once each, the oldest first', () => {
    const it = new Player()
    for (let run = 0; run < 3; run += 1) it.call(opening, says('Same.'))
    const history = [...opening, says('Same.'), user('go on')]
    expect([0, 1, 2].map(() => it.call(history, says('Same too.')).program)).toEqual(['c1', 'c2', 'c3'])
    const longer = [...history, says('Same too.'), user('and on')]
    expect([0, 1, 2].map(() => it.call(longer).program)).toEqual(['c1', 'c2', 'c3'])
  })

  it('with equal answers are told apart by the ids of tool calls', () => {
    const it = new Player()
    it.call(opening, uses('look', {}, 'call_aaaa'))
    it.call(opening, uses('look', {}, 'call_bbbb'))
    expect(it.call([...opening, uses('look', {}, 'call_bbbb'), result('1')]).program).toBe('c2')
    expect(it.call([...opening, uses('look', {}, 'call_aaaa'), result('1')]).program).toBe('c1')
  })

  it('prefer the conversation of the same user', () => {
    const it = new Player()
    it.call(opening, says('Same.'), { body: { user: 'a' } })
    it.call(opening, says('Same.'), { body: { user: 'b' } })
    const history = [...opening, says('Same.'), user('go on')]
    expect(it.call(history, undefined, { body: { user: 'b' } }).program).toBe('c2')
  })

  it('wait for an answer that is not reported yet, and for no other', () => {
    const it = new Player()
    it.call(opening)
    it.call(opening, says('Two.'))
    expect(it.awaits([...opening, says('One.'), user('go on')])).toBe(true)
    expect(it.awaits([...opening, says('Two.'), user('go on')])).toBe(false)
    it.answered('c1', says('One.'))
    expect(it.awaits([...opening, says('One.'), user('go on')])).toBe(false)
    expect(it.awaits(opening)).toBe(false)
  })
})

describe('several calls that continue one', () => {
  it('are threads of its program with the same parent', () => {
    const it = new Player()
    it.call(opening, says('Ask three experts.'))
    const branches = ['a', 'b', 'c'].map((name) => it.call([...opening, says('Ask three experts.'), user(name)]))
    for (const branch of branches) expect(branch).toMatchObject({ program: 'c1', parents: ['c1'] })
  })

  it('include a history that was edited in the middle: a fork of the same program', () => {
    const it = new Player()
    it.call(opening, says('One.'))
    const second = [...opening, says('One.'), user('two')]
    it.call(second, says('Two.'))
    it.call([...second, says('Two.'), user('three')], says('Three.'))
    expect(it.call([...second, says('Edited.'), user('other')])).toMatchObject({ program: 'c1', parents: ['c2'] })
  })
})

describe('a trace', () => {
  it('that no call had names the program only where no conversation does', () => {
    const it = new Player()
    expect(it.call(opening, says('One.'), { trace: 'T1' })).toMatchObject({ program: 'T1', source: 'trace' })
    const second = it.call([...opening, says('One.'), user('x')], undefined, { trace: 'T2' })
    expect(second).toMatchObject({ program: 'T1', source: 'conversation', parents: ['c1'] })
  })

  it('that another call had wins over the conversation', () => {
    const it = new Player()
    it.call(opening, says('One.'))
    it.call([system, user('Something else.')], says('Else.'), { trace: 'T' })
    const call = it.call([...opening, says('One.'), user('x')], undefined, { trace: 'T' })
    expect(call).toMatchObject({ program: 'T', source: 'trace', parents: null })
  })
})

describe('the tables of a tenant', () => {
  it('have a call with a trace where every call of its trace and of its conversation is looked for', () => {
    const shards = [1, 2, 3].flatMap((opening) => ['T1', 'T2'].map((trace) => conversationShard({ opening, trace })))
    expect(new Set(shards).size).toBe(1)
  })

  it('have the other calls of a conversation in one of several', () => {
    const shards = Array.from({ length: 100 }, (_, opening) => conversationShard({ opening, trace: null }))
    expect(new Set(shards).size).toBeGreaterThan(4)
  })
})

describe('bounds', () => {
  it('hold: entries, bytes and age; the oldest go first', () => {
    const few = new Player({ ...LIMITS, entries_max: 2 })
    for (const name of ['a', 'b', 'c']) few.call([user(name)], says(`I am ${name}.`))
    expect(few.table.size).toBe(2)
    expect(few.call([user('a'), says('I am a.'), user('?')]).program).toBe('c4')
    const small = new Player({ ...LIMITS, bytes_max: 2000 })
    for (let call = 0; call < 100; call += 1) small.call([user(`m${call}`)], says('x'))
    expect(small.table.bytes).toBeLessThanOrEqual(2000)
    const old = new Player()
    old.call(opening, says('One.'))
    old.now_ms = LIMITS.age_ms_max
    expect(old.call([...opening, says('One.'), user('x')]).program).toBe('c1')
    old.now_ms = 2 * LIMITS.age_ms_max + 1
    expect(old.call([...opening, says('One.'), user('x')]).program).toBe('c3')
    expect(old.table.size).toBe(1)
  })

  it(`hold of calls that begin alike: ${BUCKET_MAX} of them are looked at`, () => {
    const it = new Player()
    for (let run = 0; run <= BUCKET_MAX; run += 1) it.call(opening, says(`I am run ${run}, and I say so.`))
    const next = (run: number) => it.call([...opening, says(`I am run ${run}, and I say so.`), user('?')]).program
    expect(next(BUCKET_MAX)).toBe(`c${BUCKET_MAX + 1}`)
    expect(next(1)).toBe('c2')
  })

  it(`hold of one conversation: ${MESSAGES_MAX} messages are followed, and one more is not`, () => {
    const messages = Array.from({ length: MESSAGES_MAX + 1 }, (_, at) => (at % 2 === 0 ? user('a') : says('b')))
    expect(conversationCall({ messages }, KEY)).toBeNull()
    const longest = conversationCall({ messages: messages.slice(1) }, KEY)
    expect(longest?.beginnings.byteLength).toBeLessThan(4096)
    const it = new Player()
    it.call(messages.slice(0, MESSAGES_MAX - 1), says('b'))
    expect(it.call([...messages.slice(0, MESSAGES_MAX - 1), says('b')]).program).toBe('c1')
  })

  it('leave nothing behind when all is old', () => {
    const it = new Player()
    for (let call = 0; call < 50; call += 1)
      it.call([...opening, user(`m${call}`)], says('A long answer that is distinct.'))
    it.now_ms = 10 * LIMITS.age_ms_max
    it.call(opening)
    expect(it.table.size).toBe(1)
    expect(it.table.bytes).toBeLessThan(1000)
  })
})

/** Runs of one agent from the same prompt, played at once: in any order, each run is one program. */
it('property: runs that begin alike and get different answers are never joined and never parted', () => {
  const runs = fc.array(fc.array(fc.string({ maxLength: 3 }), { minLength: 1, maxLength: 5 }), {
    minLength: 1,
    maxLength: 8,
  })
  fc.assert(
    fc.property(runs, fc.infiniteStream(fc.nat()), (answers, picks) => {
      const it = new Player()
      const histories = answers.map(() => [...opening])
      const programs = answers.map((): string[] => [])
      const left = answers.map((turns, run) => ({ run, turns: [...turns] }))
      while (left.length > 0) {
        const at = picks.next().value % left.length
        const { run, turns } = left[at] ?? expect.unreachable()
        const text = turns.shift()
        if (text === undefined) {
          left.splice(at, 1)
          continue
        }
        const answer = says(`${run}: ${text}`)
        programs[run]?.push(it.call(histories[run] ?? [], answer).program)
        histories[run]?.push(answer, user('go on'))
      }
      for (const seen of programs) expect(new Set(seen).size).toBe(1)
      expect(new Set(programs.map(([program]) => program)).size).toBe(programs.length)
    }),
  )
})
