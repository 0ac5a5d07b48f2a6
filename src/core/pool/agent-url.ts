/**
 * To which data planes the control plane sends calls. An agent names its own URL, and the Worker posts prompts and tickets
 * there. So an agent could make the Worker call any server that the Worker reaches.
 *
 * The operator lists the hosts that data planes may have (AGENT_URL_HOSTS): `gpu-7.example.com`, `*.gpu.example.com`,
 * `10.4.0.0/16`, `[fd00::7]`, each with `:PORT` if only one port is meant. Without a list, every host is taken except those
 * that no data plane has: link-local addresses, where clouds answer with a machine's credentials, and addresses that name
 * no host.
 */

/** Entries of a list. */
export const HOSTS_MAX = 256

const OCTET = /^(?:0|[1-9]\d{0,2})$/
const NEVER = ['169.254.0.0/16', '0.0.0.0/8', '224.0.0.0/3']
/** Link-local, unspecified and multicast, also as IPv4 addresses inside of IPv6. */
const NEVER_V6 = [/^\[fe[89ab][0-9a-f]:/, /^\[::\]$/, /^\[ff[0-9a-f]{2}:/, /^\[::ffff:(?:a9fe|0|[ef]).*\]$/]

/** What is wrong with an agent's URL. Null: nothing. `hosts`: the operator's list; left out: none. */
export function agentUrlFault(url: string, hosts: string | undefined): string | null {
  const { hostname, port, protocol, username, password, search, hash } = new URL(url)
  if (username !== '' || password !== '' || search !== '' || hash !== '') {
    return 'the URL of the data plane has a user, a query or a fragment'
  }
  // Both are never right, also where a list is too wide.
  if (NEVER.some((range) => isWithin(hostname, range)) || NEVER_V6.some((pattern) => pattern.test(hostname))) {
    return `no data plane is at ${hostname}`
  }
  const allowed = hostsOf(hosts)
  if (allowed.length === 0) return null
  const actual_port = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  const fits = allowed.some((entry) => entryFits(entry, hostname, actual_port))
  return fits ? null : `the host ${hostname} is not in AGENT_URL_HOSTS`
}

function hostsOf(hosts: string | undefined): string[] {
  const entries = (hosts ?? '').split(',').map((entry) => entry.trim().toLowerCase())
  return entries.filter((entry) => entry !== '').slice(0, HOSTS_MAX)
}

function entryFits(entry: string, hostname: string, port: string): boolean {
  const match = /^(.*?)(?::(\d+))?$/.exec(entry.startsWith('[') ? entry.replace(/\](?!:)/, ']') : entry)
  const host = match?.[1] ?? entry
  if (match?.[2] !== undefined && match[2] !== port) return false
  if (host.startsWith('*.')) return hostname.endsWith(host.slice(1)) && hostname.length > host.length - 1
  return host.includes('/') ? isWithin(hostname, host) : hostname === host
}

/** Whether an IPv4 address is in a range such as `10.0.0.0/8`. The URL parser has written it with four numbers. */
function isWithin(hostname: string, range: string): boolean {
  const [network = '', bits = ''] = range.split('/')
  const [address, base] = [ipv4Of(hostname), ipv4Of(network)]
  const length = Number(bits)
  if (address === null || base === null || !Number.isInteger(length) || length < 0 || length > 32) return false
  const size = 2 ** (32 - length)
  return Math.floor(address / size) === Math.floor(base / size)
}

function ipv4Of(host: string): number | null {
  const parts = host.split('.')
  if (parts.length !== 4 || !parts.every((part) => OCTET.test(part) && Number(part) < 256)) return null
  return parts.reduce((address, part) => address * 256 + Number(part), 0)
}
