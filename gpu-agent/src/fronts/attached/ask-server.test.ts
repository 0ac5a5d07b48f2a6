import { expect, it, onTestFinished } from 'vitest'
import { addressOf, deploymentOf, keyHeaders } from './ask-server.ts'
import { attachFront } from './testing/attached-front.ts'
import { ScriptedProvider } from './testing/provider/scripted-provider.ts'

const AZURE = 'https://name.openai.azure.com/openai'

it.each([
  ['http://h', null, '/v1/models', 'http://h/v1/models'],
  [AZURE, null, '/v1/chat/completions', `${AZURE}/v1/chat/completions`],
  [AZURE, 'preview', '/v1/chat/completions', `${AZURE}/v1/chat/completions?api-version=preview`],
  [
    `${AZURE}/deployments/m`,
    '2024-10-21',
    '/v1/chat/completions',
    `${AZURE}/deployments/m/chat/completions?api-version=2024-10-21`,
  ],
  [`${AZURE}/deployments/m`, '2024-10-21', '/v1/models', `${AZURE}/models?api-version=2024-10-21`],
])('%s (version %s) is called for %s at %s', (url, api_version, path, address) => {
  expect(addressOf({ url, api_version }, path)).toBe(address)
})

it('an older address of Azure names its model', () => {
  expect(deploymentOf(`${AZURE}/deployments/gpt`)).toBe('gpt')
  expect(deploymentOf(AZURE)).toBeNull()
})

it.each([
  [{ url: 'http://h' }, { authorization: 'Bearer k' }],
  [{ url: AZURE }, { 'api-key': 'k' }],
  [{ url: AZURE, key_header: 'bearer' as const }, { authorization: 'Bearer k' }],
  [{ url: 'http://h', key_header: 'api-key' as const }, { 'api-key': 'k' }],
  [
    { url: 'http://h', api: 'messages' as const },
    { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' },
  ],
])('the key of %j goes in %j', (server, headers) => {
  expect(keyHeaders({ api_key: 'k', ...server })).toEqual(headers)
  expect(Object.values(keyHeaders({ ...server, api_key: null }))).not.toContain('k')
})

it('a deployment as Azure has it is found, and called with its version and its header', async () => {
  const provider = await new ScriptedProvider({ keys: ['sk-azure'], apis: ['chat'], ttft_s: 0.01 }).listen()
  onTestFinished(() => provider.close())
  const { front, serve } = await attachFront(
    `${provider.url}/openai/deployments/hosted`,
    {},
    { model: 'hosted', api_key: 'sk-azure', key_variable: 'KEY', api_version: '2024-10-21', key_header: 'api-key' },
  )
  expect(front.status().state).toBe('ready')
  const { sink } = serve({ max_tokens: 3 })
  expect(await sink.over).toMatchObject({ outcome: 'completed' })
  expect(provider.calls[0]?.headers).toMatchObject({ 'api-key': 'sk-azure' })
  expect(provider.calls[0]?.headers.authorization).toBeUndefined()
})
