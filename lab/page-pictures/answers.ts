/** What the scripted engines of the pictures answer. A word in brackets of the last message chooses. */
const words = (tokens: number): string => 'word'.repeat(tokens).slice(0, 4 * tokens)

export const TOOLS = ['search', 'read_file'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: {} } },
}))

export const ANSWERS = [
  {
    when: { last: '[search]', tool: 'search' },
    text: words(50),
    calls: [{ name: 'search', arguments: { query: 'agent programs' } }],
  },
  {
    when: { last: '[read]', tool: 'read_file' },
    text: words(80),
    calls: [{ name: 'read_file', arguments: { path: 'src/main.ts' } }],
  },
  { when: { last: '[long]' }, text: words(160) },
  { when: { last: '[longest]' }, text: words(12_000) },
  { text: words(40) },
]
