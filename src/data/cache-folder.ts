import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Folder for what can be made again at any time: `ALAMBIC_CACHE_DIR`, else `alambic` in the user's cache folder of this system.
 *
 * @example
 * cacheFolder({ ALAMBIC_CACHE_DIR: '/scratch/cache' }); // '/scratch/cache'
 */
export function cacheFolder(
  env: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  if (env['ALAMBIC_CACHE_DIR']) return env['ALAMBIC_CACHE_DIR'];
  if (platform === 'darwin') return join(homedir(), 'Library', 'Caches', 'alambic');
  if (platform === 'win32') return join(env['LOCALAPPDATA'] ?? join(homedir(), 'AppData', 'Local'), 'alambic');
  return join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'alambic');
}
