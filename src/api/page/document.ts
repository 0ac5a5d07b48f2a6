/**
 * The page as HTML, and its script and style. It holds nothing of anybody: what a viewer sees comes over the API. No inline
 * script and no inline style, so the policy allows neither, and nothing from another origin.
 */
import { ASSETS, ENTRY_SCRIPT, ENTRY_STYLE } from './assets.gen.ts'

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const GUARDS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

const DOCUMENT = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Switchyard</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page/assets/${ENTRY_STYLE}">
<script type="module" src="/page/assets/${ENTRY_SCRIPT}"></script>
</head>
<body><div id="page"></div><noscript>This page needs JavaScript. Without it, use the command line: npm run cli -- help</noscript></body>
</html>
`

export const wantsHtml = (accept: string | undefined): boolean => accept?.includes('text/html') === true

export function pageDocument(): Response {
  const headers = { ...GUARDS, 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store', vary: 'Accept' }
  return new Response(DOCUMENT, { headers })
}

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
}

/** Its name has a hash of its content, so a browser may keep it. Null: there is none of this name. */
export function pageAsset(name: string): Response | null {
  const content = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined
  if (content === undefined) return null
  const type = TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream'
  const headers = { ...GUARDS, 'content-type': type, 'cache-control': 'public, max-age=31536000, immutable' }
  return new Response(content, { headers })
}
