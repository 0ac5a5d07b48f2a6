/** The gpu-agent's entry. */
import './outbox/quick-drizzle.ts'

await import('./agent-process.ts')
