/** Ids of engines: the agent's id, "-", and a label without "-". The pool accepts no other (actors/link-frames.ts). */

export function agentOf(engine: string): string {
  return engine.slice(0, Math.max(0, engine.lastIndexOf('-')))
}
