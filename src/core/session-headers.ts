/**
 * Headers by which agents and routers in the field name their sessions, most specific first. A coding agent sends its
 * own and is not asked to change; what is generic, or names a tenant as often as a session, comes last.
 *
 * `program` names the session. `thread` names a chain inside it (a sub-agent), and is absent on the main one. `parent`
 * names the session that started this one: then the program is that parent, and this session is a thread of it, so that
 * an agent and its sub-agents are one program. Only one level is told, so a sub-agent's own sub-agents are a second
 * program.
 */

export interface SessionHeaders {
  program: string
  thread?: string
  parent?: string
}

export const SESSION_HEADERS: readonly SessionHeaders[] = [
  // Claude Code; the agent id is sent by sub-agents alone.
  { program: 'x-claude-code-session-id', thread: 'x-claude-code-agent-id' },
  // OpenCode, by one account; the other follows below.
  { program: 'x-session-affinity', parent: 'x-parent-session-id' },
  // Codex, in two spellings of its versions.
  { program: 'session-id', thread: 'thread-id' },
  { program: 'session_id', thread: 'thread-id' },
  { program: 'x-session-id', parent: 'x-parent-session-id' },
  // NVIDIA Dynamo's canonical headers.
  { program: 'x-dynamo-session-id', parent: 'x-dynamo-parent-session-id' },
  // llm-d's and the Gateway API inference extension's flow id.
  { program: 'x-gateway-inference-fairness-id' },
]
