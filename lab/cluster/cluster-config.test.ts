import { expect, test } from 'vitest'
import { clusterConfig, ownFolder, WorkerdConfig } from './cluster-config.ts'

const BUCKET = { url: 's3://bucket/prefix', time_divisor: 10, key: 'k'.repeat(32) }
const CONFIG = WorkerdConfig.parse({
  services: [
    {
      name: 'main',
      worker: {
        durableObjectStorage: { localDisk: 'do' },
        bindings: [{ name: 'OTHER', service: { name: 'r2:entry' } }],
      },
    },
    {
      name: 'r2',
      worker: {
        durableObjectStorage: { localDisk: 'r2:storage' },
        bindings: [{ name: 'BLOBS', service: { name: 'r2:storage', props: { empty: null } } }],
      },
    },
    { name: 'do', disk: { path: '/state/do', writable: true } },
    { name: 'r2:storage', disk: { path: '/state/r2', writable: true } },
    { name: 'proxy', worker: { durableObjectStorage: { inMemory: null } } },
  ],
  sockets: [{ name: 'entry' }, { name: 'direct', address: '127.0.0.1:8787', http: {} }],
})

test('objects on disk get a disk of each instance, and blobs keep the one that all share', () => {
  const made = clusterConfig(CONFIG, BUCKET)
  expect(made?.disks).toEqual(
    new Map([
      ['do', '/state/do'],
      ['r2:storage', '/state/r2'],
    ]),
  )
  expect(made?.sockets).toEqual(new Map([['direct', '127.0.0.1:8787']]))
  const services = made?.config.services ?? []
  expect(services.find(({ name }) => name === 'r2')?.worker?.bindings).toEqual([
    { name: 'BLOBS', service: { name: 'r2:storage:shared', props: { empty: null } } },
  ])
  expect(services.find(({ name }) => name === 'main')).toEqual(CONFIG.services[0])
  expect(services.find(({ name }) => name === 'r2:storage:shared')?.disk?.path).toBe('/state/r2')
  expect(made?.config.cluster).toMatchObject({ bucket: BUCKET.url, unsafeTimeDivisor: 10 })
})

test('instances keep their copies apart, beside the folder of a single one', () => {
  expect(ownFolder('/state/do', 1)).toBe('/state/.instance-1/do')
  expect(ownFolder('/state/do', 2)).toBe('/state/.instance-2/do')
})

test('a configuration without objects on disk stays as it is', () => {
  expect(clusterConfig({ ...CONFIG, services: CONFIG.services.slice(4) }, BUCKET)).toBeNull()
})
