/** Counts what Cloudflare bills for the actor of a batch or an application: rows of its storage, alarms, rows of D1, operations of R2. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'

export interface RunBilled {
  /** Keys that were put or deleted. */
  rows: number
  /** By the first part of a key. */
  puts: Record<string, number>
  alarms: number
  d1_rows: number
  r2_puts: number
  r2_gets: number
}

/** From here until the object is evicted. What it returns grows. */
export async function watchRun(stub: DurableObjectStub): Promise<RunBilled> {
  const billed: RunBilled = { rows: 0, puts: {}, alarms: 0, d1_rows: 0, r2_puts: 0, r2_gets: 0 }
  await runInDurableObject(stub, (instance, { storage }) => {
    const counted = (name: 'put' | 'delete' | 'setAlarm', add: (given: unknown) => void) => {
      const original = (storage[name] as (...given: unknown[]) => unknown).bind(storage)
      Object.defineProperty(storage, name, {
        value: (...given: unknown[]) => {
          add(given[0])
          return original(...given)
        },
      })
    }
    counted('put', (given) => {
      for (const key of typeof given === 'string' ? [given] : Object.keys(given as object)) {
        const kind = key.split(':')[0] ?? key
        billed.puts[kind] = (billed.puts[kind] ?? 0) + 1
        billed.rows += 1
      }
    })
    counted('delete', (given) => {
      billed.rows += Array.isArray(given) ? given.length : 1
    })
    counted('setAlarm', () => {
      billed.alarms += 1
    })
    const BUCKET = new Proxy(env.BUCKET, {
      get: (bucket, name) => {
        if (name === 'put') billed.r2_puts += 1
        if (name === 'get') billed.r2_gets += 1
        return Reflect.get(bucket, name).bind(bucket)
      },
    })
    const DB = {
      prepare: (text: string) => {
        billed.d1_rows += text.startsWith('insert') ? 1 : 0
        return env.DB.prepare(text)
      },
      batch: env.DB.batch.bind(env.DB),
    }
    Object.defineProperty(instance, 'env', { value: { ...env, BUCKET, DB }, configurable: true })
  })
  return billed
}
