/** Where models are kept for all projects of a user: the platform's cache folder, never the repository. */
import { homedir } from 'node:os'
import path from 'node:path'

export function modelCacheFolder(
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
  home: string = homedir(),
): string {
  const xdg = env.XDG_CACHE_HOME
  // The XDG specification says that a relative value is invalid and must be ignored.
  if (xdg !== undefined && path.isAbsolute(xdg)) return path.join(xdg, 'switchyard', 'models')
  const base = platform === 'darwin' ? path.join(home, 'Library', 'Caches') : path.join(home, '.cache')
  return path.join(base, 'switchyard', 'models')
}
