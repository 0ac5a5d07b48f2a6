/** What an environment is made of, and what comes of making it. */

export interface EnvironmentSpec {
  /** Its folder under the user's cache. */
  name: string
  /** Exact versions with their hashes. */
  lock_file: string
  /** Said before it is downloaded. */
  download: string
  /** `uv` for what is large: it is fetched itself where it is missing. */
  installer: 'pip' | 'uv'
}

export type PythonResult = { ok: true; python: string } | { ok: false; reason: string }
