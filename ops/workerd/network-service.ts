/**
 * The network as a service that a Worker is bound to. Miniflare sends what a Worker fetches through a Worker of its own first,
 * which adds a header. That one is so small that its garbage is hardly ever collected, and with it go the native parts
 * of each request: workerd's memory grew by about 7 kB for every call (cloudflare/workerd issue 6894).
 */
import { readFileSync } from 'node:fs'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Trusts what Miniflare's own service trusts. `extra_certificates`: a file, as Node reads it from NODE_EXTRA_CA_CERTS. */
export function networkService(extra_certificates: string | undefined) {
  return {
    type: 'network' as const,
    // The ranges of Miniflare's own service.
    allow: ['public', 'private', '240.0.0.0/4'],
    tlsOptions: { trustBrowserCas: true, trustedCertificates: certificatesOf(extra_certificates) },
  }
}

/** A file that cannot be read is one that Node warns of. */
function certificatesOf(file: string | undefined): string[] {
  if (file === undefined || file === '') return []
  try {
    return readFileSync(file, 'utf8').match(CERTIFICATE) ?? []
  } catch {
    return []
  }
}
