/**
 * Headers of calls as coding agents and routers document or build them, and the program and thread that they mean. Header
 * names, which calls carry them, and how ids relate are the source's; the values are examples.
 */

export interface AgentRequest {
  name: string
  source: string
  headers: Readonly<Record<string, string>>
  program: string
  /** Null: to be inferred. */
  thread: string | null
}

const CLAUDE_CODE = 'https://code.claude.com/docs/en/llm-gateway-protocol (request headers)'
const CODEX = 'openai/codex codex-rs/codex-api/src/requests/headers.rs build_session_headers'
const CODEX_CLIENT =
  'openai/codex codex-rs/core/src/client.rs: X_CODEX_PARENT_THREAD_ID_HEADER; root and child share session-id'
const CODEX_LEGACY = 'openai/codex 546585f codex-rs/codex-api/src/requests/headers.rs build_conversation_headers'
const OPENCODE = 'anomalyco/opencode packages/opencode/src/session/llm/request.ts prepare'
const DYNAMO = 'ai-dynamo/dynamo docs/agents/session-ids.md'
const LLM_D = 'llm-d/llm-d-router …/requestheader/agentidentity/README.md'

const CLAUDE_SESSION = '5d1c0a3e-6b51-4c5e-9a57-0d4c2f7e9b10'
const CODEX_ROOT = '019a3c7e-1f0b-7c22-8a4e-2b6f5d9c0e11'
const CODEX_CHILD = '019a3c7f-8d2a-7b40-9c11-7e3a4f5b6c22'
const OPENCODE_ROOT = 'ses_5f3a9c2b1d0eAbCdEfGhIjKlMn'
const OPENCODE_CHILD = 'ses_6a4b0d3c2e1fBcDeFgHiJkLmNo'

export const AGENT_REQUESTS: readonly AgentRequest[] = [
  {
    name: 'Claude Code, main agent',
    source: CLAUDE_CODE,
    headers: { 'anthropic-version': '2023-06-01', 'x-claude-code-session-id': CLAUDE_SESSION },
    program: CLAUDE_SESSION,
    thread: CLAUDE_SESSION,
  },
  {
    name: 'Claude Code, sub-agent',
    source: CLAUDE_CODE,
    headers: { 'x-claude-code-session-id': CLAUDE_SESSION, 'x-claude-code-agent-id': 'agent-a' },
    program: CLAUDE_SESSION,
    thread: 'agent-a',
  },
  {
    name: 'Claude Code, nested sub-agent',
    source: CLAUDE_CODE,
    headers: {
      'x-claude-code-session-id': CLAUDE_SESSION,
      'x-claude-code-agent-id': 'agent-b',
      'x-claude-code-parent-agent-id': 'agent-a',
    },
    program: CLAUDE_SESSION,
    thread: 'agent-b',
  },
  {
    name: 'Codex, root thread',
    source: CODEX,
    headers: { 'session-id': CODEX_ROOT, 'thread-id': CODEX_ROOT },
    program: CODEX_ROOT,
    thread: CODEX_ROOT,
  },
  {
    name: 'Codex, spawned thread',
    source: CODEX_CLIENT,
    headers: {
      'session-id': CODEX_ROOT,
      'thread-id': CODEX_CHILD,
      'x-codex-parent-thread-id': CODEX_ROOT,
      'x-openai-subagent': 'collab_spawn',
    },
    program: CODEX_ROOT,
    thread: CODEX_CHILD,
  },
  {
    name: 'Codex, earlier spelling',
    source: CODEX_LEGACY,
    headers: { session_id: CODEX_ROOT },
    program: CODEX_ROOT,
    thread: CODEX_ROOT,
  },
  {
    name: 'OpenCode, main session',
    source: OPENCODE,
    headers: { 'x-session-affinity': OPENCODE_ROOT, 'X-Session-Id': OPENCODE_ROOT },
    program: OPENCODE_ROOT,
    thread: OPENCODE_ROOT,
  },
  {
    name: 'OpenCode, sub-task',
    source: OPENCODE,
    headers: {
      'x-session-affinity': OPENCODE_CHILD,
      'X-Session-Id': OPENCODE_CHILD,
      'x-parent-session-id': OPENCODE_ROOT,
    },
    program: OPENCODE_ROOT,
    thread: OPENCODE_CHILD,
  },
  {
    name: 'OpenCode, as Dynamo reads it',
    source: DYNAMO,
    headers: { 'x-session-id': OPENCODE_CHILD, 'x-parent-session-id': OPENCODE_ROOT },
    program: OPENCODE_ROOT,
    thread: OPENCODE_CHILD,
  },
  {
    name: 'Dynamo, root session',
    source: DYNAMO,
    headers: { 'x-dynamo-session-id': 'research-run-42:planner' },
    program: 'research-run-42:planner',
    thread: 'research-run-42:planner',
  },
  {
    name: 'Dynamo, child session',
    source: DYNAMO,
    headers: {
      'X-Dynamo-Session-ID': 'research-run-42:researcher',
      'X-Dynamo-Parent-Session-ID': 'research-run-42:planner',
    },
    program: 'research-run-42:planner',
    thread: 'research-run-42:researcher',
  },
  {
    name: 'Dynamo, canonical before an agent’s own',
    source: DYNAMO,
    headers: { 'x-claude-code-session-id': CLAUDE_SESSION, 'x-dynamo-session-id': 'run-7' },
    program: 'run-7',
    thread: 'run-7',
  },
  {
    name: 'llm-d, explicit fairness id',
    source: LLM_D,
    headers: { 'x-llm-d-inference-fairness-id': 'flow-1' },
    program: 'flow-1',
    thread: null,
  },
  {
    name: 'llm-d, Claude Code behind LiteLLM',
    source: LLM_D,
    headers: { 'x-llm-d-inference-fairness-id': 'tenant-flow', 'x-claude-code-session-id': CLAUDE_SESSION },
    program: CLAUDE_SESSION,
    thread: CLAUDE_SESSION,
  },
  {
    name: 'an instrumented agent',
    source: 'https://www.w3.org/TR/trace-context/#examples-of-http-traceparent-headers',
    headers: { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' },
    program: '4bf92f3577b34da6a3ce929d0e0e4736',
    thread: null,
  },
]
