/** The commands that the documentation tells a reader to run, and for each what runs it here, or why nothing can. */

export interface Documented {
  command: string
  /** From 1. */
  line: number
}

/** A line of an indented block that is a command and no output. */
const STARTS =
  /^(?:[A-Z][A-Z0-9_]*=\S+ +)*(?:npm|npx|node|node_modules|pip|python3?|PYTHON|docker|curl|git|openssl|export|vllm|uv|kubectl|systemctl|useradd|cp|mv|switchyard|gpu-agent|sh|for|kill|twine|cloudflared)\b/
const SHELLS = /^(console|sh|bash|shell)?$/

/** Commands of fenced blocks (behind `$ `) and of indented ones; a line that ends with a backslash goes on. */
export function documentedCommands(markdown: string): Documented[] {
  const found: Documented[] = []
  let fence: string | null = null
  let open: Documented | null = null
  for (const [index, line] of markdown.split('\n').entries()) {
    const mark = /^\s*```(\w*)/.exec(line)
    if (mark !== null) {
      fence = fence === null ? (mark[1] ?? '') : null
      open = null
      continue
    }
    const text = commandText(line, fence)
    if (open !== null) open.command = `${open.command.replace(/\\$/, '').trimEnd()} ${line.trim()}`
    else if (text !== null) {
      open = { command: text, line: index + 1 }
      found.push(open)
    }
    if (open !== null && !open.command.endsWith('\\')) open = null
  }
  return found.map(({ command, line }) => ({ command: command.replace(/\s{2,}#.*$/, ''), line }))
}

function commandText(line: string, fence: string | null): string | null {
  if (fence !== null) return SHELLS.test(fence) && line.startsWith('$ ') ? line.slice(2) : null
  const indented = /^ {4}(\S.*)$/.exec(line)?.[1] ?? ''
  // Variables alone, for the command on the next line.
  const goes_on = /^[A-Z][A-Z0-9_]*=.*\\$/.test(indented)
  return STARTS.test(indented) || goes_on ? indented : null
}

/** Commands that are none of ours, or that need what is not here. The first one whose start fits counts. */
export const ELSEWHERE: readonly { start: string; by: string }[] = [
  { start: 'npm test', by: 'CI runs it' },
  { start: 'npm run test:long', by: 'CI runs it' },
  { start: 'export ', by: 'sets variables for the next command' },
  { start: 'eval "$(npx switchyard env)"', by: 'sets variables for the next command' },
  { start: 'curl ', by: 'test/workerd and test/system ask the same routes' },
  { start: 'for ', by: 'a loop over a command that is run: needs an account or a cluster as it is' },
  {
    start: 'pip install switchyard-client',
    by: 'test/packages/install.test.ts installs the same wheel; not published yet',
  },
  {
    start: 'npm install @switchyard-llm/client',
    by: 'test/packages/install.test.ts installs the same tarball; not published yet',
  },
  { start: 'npm install -g ./dist/packages/', by: 'test/packages/install.test.ts installs the same tarball' },
  { start: 'switchyard up', by: 'test/packages/install.test.ts' },
  { start: 'pip install ./gpu-agent/vllm', by: 'test/packages/install.test.ts installs its wheel' },
  { start: 'npm ci --workspace gpu-agent --omit=dev', by: 'test/system/gpu-agent-alone.test.ts' },
  {
    start: 'node_modules/.bin/node gpu-agent/src/main.ts',
    by: 'flags: here; an agent: test/system/production.test.ts',
  },
  { start: 'SWITCHYARD_AGENT_TOKEN=sya-… node_modules/.bin/node gpu-agent/src/main.ts', by: 'as the line above' },
  { start: 'vllm serve', by: 'needs a GPU; test/system/vllm starts the same module on the CPU' },
  { start: 'PYTHON -m vllm', by: 'needs a GPU and the network' },
  { start: 'uv pip compile', by: 'by hand, when a version changes: asks the registry' },
  { start: 'docker ', by: 'needs a container daemon; the files are linted (docs/install.md)' },
  { start: 'sh ops/compose/secrets.sh', by: 'lab/deployment/files.test.ts' },
  { start: 'kubectl ', by: 'needs a cluster; the manifests are linted (docs/install.md)' },
  { start: 'useradd ', by: 'needs root and systemd' },
  { start: 'cp ops/systemd/', by: 'needs root and systemd; lab/deployment/files.test.ts reads the file' },
  { start: 'systemctl ', by: 'needs root and systemd' },
  { start: 'npx wrangler', by: 'needs a Cloudflare account' },
  { start: 'ANTHROPIC_AUTH_TOKEN=', by: 'npm run test:clients runs the client with the same settings' },
  { start: 'claude', by: 'npm run test:clients runs the client' },
  { start: 'cp examples/', by: 'npm run test:clients uses the same files' },
  { start: 'npx vitest', by: 'a part of npm test' },
  { start: 'npm install --prefix /opt/workerd-cluster', by: 'by hand, for the two below: a workerd that has clusters' },
  { start: 'SWITCHYARD_WORKERD=$PWD/lab/cluster/workerd', by: 'by hand: needs a bucket; lab/cluster has unit tests' },
  { start: 'npx node lab/cluster/kill-instance.ts', by: 'by hand, for the line above' },
  { start: 'SWITCHYARD_LLAMA_SERVER=', by: 'by hand: needs a llama.cpp server' },
  { start: 'SWITCHYARD_LITELLM=', by: 'by hand: needs LiteLLM' },
  { start: "pip install 'litellm[proxy]", by: 'by hand, for the line above' },
  { start: 'npx node lab/continued-answers.ts', by: 'by hand: it needs a server of a real model' },
  { start: 'npx node lab/provider.ts', by: 'bench:front --provider starts the same server' },
  { start: 'npx node lab/plain-server.ts', by: 'test/system/any-server.test.ts starts the same server' },
  {
    start: 'node lab/golden/write-golden.ts',
    by: 'a test fails while the committed traces differ from what it writes',
  },
  { start: 'npx node simulator/', by: 'by hand, when the inputs change: a test holds what it wrote' },
]
