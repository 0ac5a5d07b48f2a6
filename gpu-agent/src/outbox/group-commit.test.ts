import { expect, test } from 'vitest'
import type { AgentEvent } from '../events.ts'
import { GroupCommit, OPERATIONS_PER_FLUSH } from './group-commit.ts'

interface Disk {
  commit: GroupCommit
  transactions: number[][]
  broken: { value: boolean }
  events: AgentEvent[]
  overflows: string[]
  turns: boolean[]
}

function disk(operations_max?: number): Disk {
  const transactions: number[][] = []
  const broken = { value: false }
  const events: AgentEvent[] = []
  const overflows: string[] = []
  const turns: boolean[] = []
  const commit = new GroupCommit({
    transaction(body) {
      transactions.push([])
      try {
        body()
        if (broken.value) throw new Error('disk full')
      } catch (error) {
        transactions.pop()
        throw error
      }
    },
    report: (event) => events.push(event),
    overflow: (message) => overflows.push(message),
    onFailing: (failing) => turns.push(failing),
    retry_ms: 1,
    ...(operations_max !== undefined && { operations_max }),
  })
  return { commit, transactions, broken, events, overflows, turns }
}

function push({ commit, transactions }: Disk, n: number, when: 'soon' | 'delayed'): Promise<void> {
  return new Promise((resolve) =>
    commit.push({ apply: () => transactions.at(-1)?.push(n), committed: () => resolve() }, when),
  )
}

test('what is queued in one turn is one transaction, in the order given, of any urgency', async () => {
  const d = disk()
  await Promise.all([push(d, 1, 'delayed'), push(d, 2, 'soon'), push(d, 3, 'delayed'), push(d, 4, 'soon')])
  expect(d.transactions).toEqual([[1, 2, 3, 4]])
})

test('a delayed operation is committed without company too', async () => {
  const d = disk()
  await push(d, 1, 'delayed')
  expect(d.transactions).toEqual([[1]])
})

test('a failed transaction is tried again with everything, in order, and reported once', async () => {
  const d = disk()
  d.broken.value = true
  const first = push(d, 1, 'soon')
  expect(d.commit.flush()).toBe(false)
  expect(d.commit.failing).toBe(true)
  const second = push(d, 2, 'soon')
  expect(d.commit.flush()).toBe(false)
  expect(d.transactions).toEqual([])
  d.broken.value = false
  await Promise.all([first, second])
  expect(d.transactions).toEqual([[1, 2]])
  expect(d.commit.failing).toBe(false)
  expect(d.events).toEqual([{ event: 'outbox_write_failed', message: 'disk full', operations: 1 }])
  expect(d.turns).toEqual([true, false])
})

test('a full batch is flushed in the turn that fills it', () => {
  const d = disk()
  for (let n = 1; n < OPERATIONS_PER_FLUSH; n += 1) void push(d, n, 'delayed')
  expect(d.transactions).toEqual([])
  void push(d, OPERATIONS_PER_FLUSH, 'delayed')
  expect(d.transactions.map((transaction) => transaction.length)).toEqual([OPERATIONS_PER_FLUSH])
})

test('a queue at its bound waits for the disk; one past it is handed over', () => {
  const d = disk(3)
  d.broken.value = true
  for (const n of [1, 2, 3]) void push(d, n, 'soon')
  d.commit.flush()
  expect(d.overflows).toEqual([])
  void push(d, 4, 'soon')
  void push(d, 5, 'soon')
  expect(d.overflows).toHaveLength(1)
  expect(d.commit.length).toBe(3)
  d.commit.close()
})

test('closing commits what is queued, and nothing afterwards', () => {
  const d = disk()
  void push(d, 1, 'soon')
  expect(d.commit.close()).toBe(true)
  void push(d, 2, 'soon')
  expect(d.commit.flush()).toBe(true)
  expect(d.transactions).toEqual([[1]])
})
