import { expect, test } from 'vitest'
import { CallRecord, type TicketClaims } from '../../../src/protocol/index.ts'
import { endWithoutService, recordOf } from './record.ts'

const CLAIMS = {
  ...{ v: 2, tenant: 't', program: 'p', run: 'r', thread: 'x', call: 'c', lease: 'l', class: 'k' },
  ...{ agent: 'a', engine: 'a-e0', epoch: 'e', region: 'here', model: 'm' },
  ...{
    tenant_weight: 1,
    objective: 'token_latency',
    sequence: null,
    settled_service_us: 0,
    open_elsewhere_us: 0,
    critical_path_us: 0,
    program_wait_us: 0,
  },
  ...{ program_output_tokens: 0, cache_salt: 's', iat: 0, exp: 60 },
} as const satisfies TicketClaims

/** A record that the control plane cannot read would be sent for ever. */
test.each([64, 65])('an error code of %i characters makes a record that can be read', (chars) => {
  const error = { message: 'x', type: 'server_error', param: null, code: 'c'.repeat(chars) }
  const record = recordOf(CLAIMS, endWithoutService('failed', { error, status: 500, retryable: false }), 0)
  expect(CallRecord.parse(record).error_code).toBe('c'.repeat(64))
})
