/** Migrations of the agent's outbox: `drizzle-kit generate --config gpu-agent/drizzle.config.ts`, run from the repository's root. */
import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'sqlite',
  schema: './gpu-agent/src/outbox-schema.ts',
  out: './gpu-agent/migrations',
})
