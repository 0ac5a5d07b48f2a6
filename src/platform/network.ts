/**
 * The way out of the Worker: to agents, and to a collector of traces. A system of one's own binds the network itself, since
 * Miniflare puts a Worker before `fetch` (ops/workerd/network-service.ts). On Cloudflare `fetch` is the way.
 */
export interface NetworkEnv {
  NETWORK?: Pick<Fetcher, 'fetch'>
}

export function networkFetch({ NETWORK }: NetworkEnv): typeof fetch {
  // Neither may be called as a method of another object.
  return NETWORK === undefined ? (input, init) => fetch(input, init) : (input, init) => NETWORK.fetch(input, init)
}
