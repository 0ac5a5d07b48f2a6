/**
 * Whether node_modules holds what package-lock.json asks for. npm itself keeps that in node_modules/.package-lock.json, which
 * it writes last, so any `npm ci` counts, and no file of ours has to be written.
 */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

export function modulesFolder(root) {
  return path.join(root, 'node_modules')
}

export function projectNode(root) {
  return path.join(modulesFolder(root), 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
}

export function isInstalled(root) {
  return existsSync(projectNode(root)) && hasPackages(root)
}

/** All packages but for what their install scripts make: the project's own Node. */
export function hasPackages(root) {
  const installed = packagesOf(path.join(modulesFolder(root), '.package-lock.json'))
  if (installed === null) return false
  const wanted = packagesOf(path.join(root, 'package-lock.json')) ?? {}
  // Packages that a developer added without saving them do no harm.
  const kept = Object.entries(installed).filter(([, entry]) => !entry.extraneous)
  if (!kept.every(([folder, entry]) => isSame(wanted[folder], entry))) return false
  // npm leaves out the optional packages of other platforms.
  return Object.entries(wanted).every(
    ([folder, entry]) => folder === '' || entry.optional === true || installed[folder] !== undefined,
  )
}

/** Folders of the packages that npm will unpack on this machine; a few of another C library are among them. */
export function foldersToUnpack(root) {
  const wanted = packagesOf(path.join(root, 'package-lock.json')) ?? {}
  return Object.entries(wanted)
    .filter(([folder, entry]) => folder.includes('node_modules/') && !entry.link && fits(entry))
    .map(([folder]) => path.join(root, folder))
}

function fits({ os, cpu }) {
  return (os === undefined || os.includes(process.platform)) && (cpu === undefined || cpu.includes(process.arch))
}

function isSame(wanted, { version, resolved, integrity }) {
  return wanted?.version === version && wanted.resolved === resolved && wanted.integrity === integrity
}

/** Null: there is no such file, or an installation was cut off while it was written. */
function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages ?? {}
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return null
    throw error
  }
}
