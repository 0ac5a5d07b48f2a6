import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { EXIT_CONFIG } from './explain-error.ts'
import { parseUpFlags } from './up-flags.ts'

const GUIDE = path.join(import.meta.dirname, '..', '..', 'docs', 'self-host.md')

test('the documented systemd unit starts what exists, with flags that are accepted, and never twice in vain', () => {
  const unit = /```ini\n([\s\S]*?)```/.exec(readFileSync(GUIDE, 'utf8'))?.[1] ?? ''
  const settings = new Map(unit.split('\n').map((line) => line.split(/=(.*)/s) as [string, string]))
  const [node, bootstrap, script, ...args] = settings.get('ExecStart')?.split(' ') ?? []
  expect([node, bootstrap, script]).toEqual(['/usr/bin/node', 'ops/bootstrap.mjs', 'ops/up.ts'])
  expect(parseUpFlags(args)).toMatchObject({ status: 'ok', options: { production: true } })
  expect(args.at(-1)).toBe(`/var/lib/${settings.get('StateDirectory')}`)
  expect(settings.get('RestartPreventExitStatus')).toBe(`${EXIT_CONFIG}`)
})
