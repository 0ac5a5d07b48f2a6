import { expect, test } from 'vitest'
import { agentUrlFault } from './agent-url.ts'

test.each([
  'http://127.0.0.1:9000',
  'https://gpu-7.example.com/',
  'http://10.0.0.7:80/prefix',
  'http://[::1]:9000',
  'http://[fd00::7]',
])('without a list %s is taken', (url) => {
  expect(agentUrlFault(url, undefined)).toBeNull()
  expect(agentUrlFault(url, ' , ')).toBeNull()
})

test.each([
  'http://169.254.169.254/latest/meta-data',
  // The URL parser reads all of these as 169.254.169.254.
  'http://2852039166/',
  'http://0xa9.0xfe.0xa9.0xfe/',
  'http://[::ffff:169.254.169.254]/',
  'http://[fe80::1]/',
  'http://[::]/',
  'http://[ff02::1]/',
  'http://0.0.0.0:9000',
  'http://239.1.2.3',
  'http://255.255.255.255',
  'http://user:word@gpu.example.com',
  'http://gpu.example.com/?x=1',
  'http://gpu.example.com/#x',
])('%s is never taken', (url) => {
  expect(agentUrlFault(url, undefined)).not.toBeNull()
  expect(agentUrlFault(url, '0.0.0.0/0,*.example.com,gpu.example.com,[fe80::1]')).not.toBeNull()
})

const LIST = 'gpu-7.example.com, *.gpu.example.com:8443,10.4.0.0/16 ,[fd00::7]:9000,[fd00::8]'

test.each([
  'https://gpu-7.example.com',
  'http://GPU-7.example.com:1234',
  'https://a.gpu.example.com:8443',
  'http://10.4.255.1',
  'http://[fd00::7]:9000',
  'http://[fd00::8]:1',
])('%s is in the list', (url) => {
  expect(agentUrlFault(url, LIST)).toBeNull()
})

test.each([
  'https://gpu-8.example.com',
  'https://gpu-7.example.com.evil.test',
  'https://a.gpu.example.com',
  'https://.gpu.example.com:8443',
  'https://gpu.example.com:8443',
  'http://10.5.0.1',
  'http://[fd00::7]',
  'http://127.0.0.1',
])('%s is not in the list', (url) => {
  expect(agentUrlFault(url, LIST)).not.toBeNull()
})
