/** Where a process of the control plane keeps its objects. The first, which may be the only one, has the state folder itself. */
import path from 'node:path'

const PREFIX = 'process-'
/** Miniflare's name for the folder of objects, in which each class has one. */
const OBJECTS = 'do'

export function processFolder(stateFolder: string, index: number): string {
  return index === 0 ? stateFolder : path.join(stateFolder, `${PREFIX}${index}`)
}

export function objectsFolder(stateFolder: string, index: number): string {
  return path.join(processFolder(stateFolder, index), OBJECTS)
}

/** Of the folders in a state folder, those of processes but the first. */
export function processIndexes(names: readonly string[]): number[] {
  return names
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => Number(name.slice(PREFIX.length)))
    .filter((index) => Number.isSafeInteger(index) && index > 0)
}
