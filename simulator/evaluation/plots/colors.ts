/** One colour for each system and balancer, on every plot the same. */
import type { BalancerName } from '../../../src/core/pool/balancers/index.ts'
import type { SystemName } from '../systems.ts'

export const SYSTEM_COLORS: Readonly<Record<SystemName, string>> = {
  vllm: '#94a3b8',
  'vllm-opt': '#3b82f6',
  mlfq: '#f59e0b',
  rr: '#a855f7',
  'fcfs-program': '#1d4ed8',
  'mlfq-program': '#b45309',
  'rr-program': '#7e22ce',
  plas: '#10b981',
  atlas: '#84a312',
  learned: '#0891b2',
  'vllm-discard': '#94a3b8',
  'vllm-preserve': '#64748b',
  infercept: '#3b82f6',
  lamps: '#f59e0b',
  'learned-memory': '#10b981',
  srpt: '#ef4444',
  wsrpt: '#ec4899',
}

export const BALANCER_COLORS: Readonly<Record<BalancerName, string>> = {
  'round-robin': '#94a3b8',
  'least-used': '#3b82f6',
  affinity: '#f59e0b',
  locality: '#10b981',
  'cost-aware': '#a855f7',
}

export const BALANCER_LABELS: Readonly<Record<BalancerName, string>> = {
  'round-robin': 'round robin',
  'least-used': 'least used',
  affinity: 'session affinity',
  locality: 'Algorithm 2 (paper)',
  'cost-aware': 'cost-aware (ours)',
}

/** For lines that are neither systems nor balancers. */
export const SERIES_COLORS = ['#3b82f6', '#10b981', '#f59e0b', '#a855f7', '#ef4444', '#14b8a6', '#94a3b8'] as const

export function seriesColor(at: number): string {
  return SERIES_COLORS[at % SERIES_COLORS.length] as string
}
