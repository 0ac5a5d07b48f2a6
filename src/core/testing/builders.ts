/** Builders for core's tests: everything has a value, a test names what it is about. */
import type { CallRecord, EngineDescription, EngineStatus } from '../../protocol/index.ts'
import type { EngineSnapshot, ProgramRequest } from '../pool/pool-types.ts'
import { ProgramEntry, type ProgramOpening } from '../program/program-entry.ts'
import type { LeaseGrant } from '../program/program-state.ts'

export function entry(opening: Partial<ProgramOpening> = {}): ProgramEntry {
  return ProgramEntry.open({
    tenant: 'tenant',
    program: 'program',
    run: 'run',
    app: null,
    class: 'tenant',
    metadata: null,
    reading: 'modelled',
    now_ms: 0,
    ...opening,
  })
}

export function record(of: Partial<CallRecord> & { lease: string; call: string }): CallRecord {
  const service_us = of.service_modelled_us ?? 1000
  return {
    v: 1,
    tenant: 'tenant',
    program: 'program',
    run: 'run',
    thread: 't0',
    class: 'tenant',
    agent: 'agent',
    engine: 'e0',
    epoch: 'epoch',
    region: 'region',
    model: 'model',
    outcome: 'completed',
    finish_reason: 'stop',
    error_code: null,
    prompt_tokens: 10,
    cached_tokens: 4,
    output_tokens: 5,
    service_wall_us: 2 * service_us,
    service_modelled_us: service_us,
    wait_us: 7,
    preemptions: 1,
    resumed_tokens: 0,
    swapped_out_tokens: 12,
    swapped_in_tokens: 8,
    recomputed_tokens: 3,
    swap_us: 6,
    first_token_us: 500,
    duration_us: 3 * service_us,
    ended_at_ms: 0,
    ...of,
  }
}

export function grant(of: Partial<LeaseGrant> & { lease: string; call: string }): LeaseGrant {
  return {
    run: 'run',
    agent: 'agent',
    engine: 'e0',
    epoch: 'epoch',
    region: 'region',
    model: 'model',
    reason: 'least_used',
    speed_factor: 1,
    pin: false,
    now_ms: 0,
    ...of,
  }
}

export function engine(of: Partial<EngineSnapshot> = {}): EngineSnapshot {
  return {
    engine: 'e0',
    epoch: 'epoch',
    agent: 'agent',
    url: 'http://agent',
    kind: 'emulated',
    state: 'ready',
    seats: 8,
    waiting: 0,
    running: 0,
    queued_tokens: 0,
    kv_used_tokens: 0,
    kv_capacity_tokens: 100_000,
    context_tokens_max: 32_768,
    leases_since_report: 0,
    speed_factor: 1,
    prefill_tokens_per_s: 8000,
    last_report_ms: 0,
    ...of,
  }
}

export function request(of: Partial<ProgramRequest> = {}): ProgramRequest {
  return {
    tenant: 'tenant',
    program: 'program',
    lease: 'lease',
    prompt_tokens_estimate: 100,
    pin: null,
    excluded_engines: [],
    max_load: null,
    now_ms: 0,
    ...of,
  }
}

export function description(of: Partial<EngineDescription> = {}): EngineDescription {
  return {
    id: 'e0',
    epoch: 'epoch',
    kind: 'emulated',
    model: 'model',
    seats: 8,
    kv_capacity_tokens: 100_000,
    context_tokens_max: 32_768,
    prefill_tokens_per_s: 8000,
    speed_factor: 1,
    ...of,
  }
}

export function report(of: Partial<EngineStatus> = {}): EngineStatus {
  return {
    id: 'e0',
    epoch: 'epoch',
    state: 'ready',
    waiting: 0,
    running: 0,
    queued_tokens: 0,
    kv_used_tokens: 0,
    leases_seen: [],
    bytes_per_token: null,
    ...of,
  }
}
