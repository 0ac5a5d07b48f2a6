import { expect, it } from 'vitest'
import { promptBytes } from './prompt-bytes.ts'

it.each<[string, object, number]>([
  [
    'texts of messages in UTF-8',
    {
      messages: [
        { role: 'system', content: 'ab' },
        { role: 'user', content: 'ž🐎' },
      ],
    },
    8,
  ],
  [
    'text parts and no images',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'abc' },
            { type: 'image_url', image_url: { url: 'x'.repeat(999) } },
          ],
        },
      ],
    },
    3,
  ],
  [
    'tools and tool calls as JSON',
    { messages: [{ role: 'assistant', content: null, tool_calls: [1] }], tools: [22] },
    7,
  ],
  ['a prompt', { prompt: 'abcd' }, 4],
  ['several prompts', { prompt: ['ab', 'cd'] }, 4],
  ['token ids', { prompt: [1, 2, 3] }, 12],
  ['nothing', {}, 0],
])('counts %s', (_, body, bytes) => {
  expect(promptBytes(body as Record<string, unknown>)).toBe(bytes)
})
