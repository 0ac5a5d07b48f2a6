/** Ids of a system on one machine: agents are numbered from 1 in their region. */
export function agentIdOf(region: string, number = 1): string {
  return `${region}-${number}`
}

export function agentIdsOf(region: string, agents_per_region: number): string[] {
  return Array.from({ length: agents_per_region }, (_, index) => agentIdOf(region, index + 1))
}
