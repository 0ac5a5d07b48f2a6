/**
 * Ten projects: `unit` in Node (the agent and the tools), `unit-shared` there in one process (rooms that only compute), `workerd` in
 * the real runtime with real Durable Objects and D1, `workerd-shared` in that runtime without either, `system`, which starts
 * everything as a user would, `vllm`, which does so with a real vLLM (6 GB), `long` and `long-vllm`, which do the same for longer,
 * `page`, which opens the page in a Chromium, and `packages`, which installs every package with npm and pip into empty folders.
 * `npm run test:fast` runs the first four, `npm test` the first six, and `npm run test:long` the two long ones.
 */
import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'

const migrations = await readD1Migrations('migrations')

/** They end a test that hangs, and must let one pass that starts processes or workerd on a machine busy with many others. */
const LIMITS = { testTimeout: 180_000, hookTimeout: 180_000, expect: { poll: { timeout: 150_000 } } }

/** One whole system at a time. */
const ONE_SYSTEM = { fileParallelism: false, testTimeout: 600_000, hookTimeout: 600_000 }
/** A start of vLLM takes a minute on two idle cores and is part of some tests. */
const ONE_VLLM = { fileParallelism: false, testTimeout: 600_000, hookTimeout: 300_000 }

/** Tests of rooms that only compute. */
const PURE = [
  ...['src/core', 'src/protocol', 'clients/typescript/src', 'dashboard', 'simulator'],
  ...['memory', 'order', 'queue', 'replay'].map((room) => `gpu-agent/engine/${room}`),
].map((folder) => `${folder}/**/*.test.ts`)

/** Relay tests with real actors behind them. */
const WITH_ACTORS = ['api', 'idempotent-call', 'responses-call', 'run-call-ending'].map(
  (name) => `src/relay/${name}.test.ts`,
)

/**
 * What an object logs goes to the runtime's own output. Vitest would send it over the runner's socket, which only the runner's object
 * may use: a line that an object logs when a file's last test has ended waits for the next message, Vitest waits for the line before it
 * sends that, and the run hangs (vitest-plugin 1.4.10).
 */
const OWN_CONSOLE = { disableConsoleIntercept: true }

const runtime = () =>
  cloudflareTest({
    wrangler: { configPath: './wrangler.toml' },
    miniflare: {
      bindings: {
        D1_MIGRATIONS: migrations,
        KEY_PEPPER: 'test-pepper',
        TICKET_SECRET: 'test-ticket-secret',
        ADMIN_KEY: 'test-admin-key',
      },
    },
  })

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...LIMITS,
          name: 'unit-shared',
          include: PURE,
          exclude: ['**/node_modules/**'],
          // They start nothing and change nothing outside themselves. A process for each file would take as long as the tests.
          isolate: false,
        },
      },
      {
        test: {
          ...LIMITS,
          name: 'unit',
          setupFiles: ['./gpu-agent/src/outbox/quick-drizzle.ts'],
          include: ['gpu-agent', 'lab', 'ops'].map((folder) => `${folder}/**/*.test.ts`),
          exclude: ['**/node_modules/**', ...PURE],
        },
      },
      {
        plugins: [runtime()],
        test: {
          ...LIMITS,
          ...OWN_CONSOLE,
          name: 'workerd-shared',
          include: ['src/{relay,actors,store,platform}/**/*.test.ts'],
          exclude: WITH_ACTORS,
          // They use no binding and keep nothing in the isolate. One of its own for each file takes ten times as long as the tests.
          isolate: false,
          maxWorkers: 2,
        },
      },
      {
        plugins: [runtime()],
        test: {
          ...LIMITS,
          ...OWN_CONSOLE,
          name: 'workerd',
          include: ['src/api/**/*.test.ts', ...WITH_ACTORS, 'test/workerd/**/*.test.ts'],
          setupFiles: ['./test/workerd/setup.ts'],
          // They wait for timers of actors more than they compute.
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'system',
          include: ['test/system/**/*.test.ts'],
          exclude: ['test/system/vllm/**'],
          ...ONE_SYSTEM,
        },
      },
      {
        test: {
          name: 'long',
          include: ['test/long/*.test.ts'],
          ...ONE_SYSTEM,
        },
      },
      {
        test: {
          name: 'packages',
          include: ['test/packages/*.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          name: 'page',
          include: ['test/page/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          name: 'vllm',
          include: ['test/system/vllm/*.test.ts'],
          ...ONE_VLLM,
        },
      },
      {
        test: {
          name: 'long-vllm',
          include: ['test/long/vllm/*.test.ts'],
          ...ONE_VLLM,
        },
      },
    ],
  },
})
