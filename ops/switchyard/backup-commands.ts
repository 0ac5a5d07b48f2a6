/** `backup`, `restore`: the state of the self-hosted system on this machine, as a folder. */
import { DATA_DIR_DEFAULT, type DataDir, dataDir } from '../system/data-dir.ts'
import { explained } from '../system/explain-error.ts'
import { CommandFailure, type Row } from './client.ts'
import type { Answer, LocalAsked, LocalCommand } from './command.ts'

export const BACKUP_COMMANDS: readonly LocalCommand[] = [
  {
    words: ['backup'],
    as: 'local',
    args: ['DIR'],
    flags: {},
    purpose: 'copies the state of this machine’s system while it runs',
    run: (asked) =>
      inPlace(asked, async (place) => {
        const { backUp } = await import('../system/backup/back-up.ts')
        const { folder, bytes, files, held_ms, made_at } = await backUp(place, asked.args[0] ?? '')
        const row = { folder, made_at, files: Object.keys(files).length, bytes, held_ms: Math.round(held_ms) }
        const note =
          held_ms === 0 ? 'Nothing ran meanwhile.' : `Calls and acknowledgements waited for ${Math.round(held_ms)} ms.`
        return { row, text: `Backed up to ${folder}: ${row.files} files, ${(bytes / 1e6).toFixed(1)} MB. ${note}` }
      }),
  },
  {
    words: ['restore'],
    as: 'local',
    args: ['DIR'],
    flags: {},
    purpose: 'puts a backup in place for the next `up`; the state there is moved aside',
    run: (asked) =>
      inPlace(asked, async (place) => {
        const { restore } = await import('../system/backup/restore.ts')
        const { made_at, replaced } = await restore(place, asked.args[0] ?? '')
        const before = replaced === null ? '' : ` What was there is in ${replaced}.`
        const text = `${place.root} is as of ${made_at}.${before} \`switchyard up\` starts it.`
        return { row: { data_dir: place.root, made_at, replaced }, text }
      }),
  },
]

/** What the user can fix is said in a sentence. */
async function inPlace(
  { text }: LocalAsked,
  work: (place: DataDir) => Promise<{ row: Row; text: string }>,
): Promise<Answer> {
  const place = dataDir(text('data-dir') ?? DATA_DIR_DEFAULT)
  try {
    return { kind: 'told', ...(await work(place)) }
  } catch (error) {
    const reason = explained(error, place)
    if (reason === null) throw error
    throw new CommandFailure('refused', reason)
  }
}
