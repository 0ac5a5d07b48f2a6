import { expect, it } from 'vitest'
import { completionSeconds } from './completion-window.ts'

it('reads OpenAI’s window and others within the bounds', () => {
  const read = ['24h', '10s', '9s', '14d', '15d', '90m', '24', 'h', '-1h', '1.5h', ''].map(completionSeconds)
  expect(read).toEqual([86_400, 10, null, 14 * 86_400, null, 5_400, null, null, null, null, null])
})
