/**
 * Processes by identity. A pid alone does not name a process for long: with the moment at which its process started, and the boot in
 * which that was, it names one process for ever. vLLM is started as the leader of a session and a group of its own, so its
 * group's id is the leader's pid, and the kernel gives that number to no other process while one of the group lives. A
 * zombie counts as ended: in a container it may never be collected.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

interface Stat {
  pid: number
  group: number
  /** Of its program, at most 15 characters on Linux. */
  name: string
  ended: boolean
  /** Comparable with others of the same boot. */
  started: string
}

/** `null`: there is no such process, or it has ended. */
export function startOf(pid: number): string | null {
  const stat = statOf(pid)
  return stat === null || stat.ended ? null : stat.started
}

/** Pids of the group that have not ended. */
export function groupMembers(group: number): number[] {
  return livingIn(group).map(({ pid }) => pid)
}

/** Names of the programs of the group that have not ended. */
export function groupPrograms(group: number): string[] {
  return livingIn(group).map(({ name }) => name)
}

/**
 * Files of shared memory that processes of the group have mapped, and that have a name. A process that is killed leaves its own
 * there until the host starts again. Elsewhere than on Linux: none.
 */
export function sharedMemoryOf(group: number): string[] {
  if (!LINUX) return []
  const names = groupMembers(group).flatMap((pid) => mapsOf(pid).match(SHARED_MEMORY) ?? [])
  return [...new Set(names)]
}

/** At the end of a line. A file without a name has `(deleted)` there. */
const SHARED_MEMORY = /\/dev\/shm\/[\w.-]+$/gm

function mapsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  }
}

function livingIn(group: number): Stat[] {
  if (!signalGroup(group, 0)) return []
  return allProcesses().filter((stat) => stat.group === group && !stat.ended)
}

/** False: the group is empty. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  return signalled(-group, signal)
}

/** False: there is no such process. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  return signalled(pid, signal)
}

function signalled(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(target, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

const LINUX = process.platform === 'linux'
/** `Mon Nov 23 02:15:00 2026` */
const LSTART_WORDS = 5
let boot = ''

function bootId(): string {
  boot ||= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return boot
}

function statOf(pid: number): Stat | null {
  if (!LINUX) return allProcesses().find((stat) => stat.pid === pid) ?? null
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}

/** proc(5): `pid (name) state ppid pgrp …`, the start in clock ticks since boot as field 22; a name may hold anything. */
function parseStat(text: string): Stat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, , group] = fields
  return {
    pid: Number.parseInt(text, 10),
    group: Number(group),
    name: text.slice(text.indexOf('(') + 1, text.lastIndexOf(')')),
    ended: state === 'Z' || state === 'X',
    started: `${bootId()}:${fields[19]}`,
  }
}

function allProcesses(): Stat[] {
  if (LINUX) {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((name) => statOf(Number(name)))
      .filter((stat) => stat !== null)
  }
  const text = execFileSync('ps', ['-axo', 'pid=,pgid=,stat=,lstart=,comm='], { encoding: 'utf8' })
  return text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .map(([pid, group, state, ...rest]) => ({
      pid: Number(pid),
      group: Number(group),
      name: rest.slice(LSTART_WORDS).join(' ').split('/').at(-1) ?? '',
      ended: state?.startsWith('Z') ?? true,
      started: rest.slice(0, LSTART_WORDS).join(' '),
    }))
}
