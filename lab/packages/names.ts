/**
 * The names under which Switchyard is published, stated once. `switchyard` belongs to others on npm and on PyPI, so the npm
 * packages have a scope of their own and the Python ones a suffix. The registries had none of these names on 2026-11-23.
 */
export const NPM_SCOPE = '@switchyard-llm'

export const NAMES = {
  /** The control plane with its command line, and an agent for `switchyard up`. */
  system: `${NPM_SCOPE}/switchyard`,
  /** The daemon of a GPU host alone. */
  agent: `${NPM_SCOPE}/gpu-agent`,
  client: `${NPM_SCOPE}/client`,
  python_client: 'switchyard-client',
  vllm_plugin: 'switchyard-vllm',
} as const
