/**
 * The real clients that Switchyard is tried with. Each is installed in an environment of its own, with exact versions
 * (locks/), and gets a base URL and a key. Nothing else of it is changed.
 */
import type { CodingAgentName, Task } from './coding-agents.ts'

export interface ExpectedProgram {
  /** Exactly, or at least. Coding agents make side calls, for example for a title, whose number is theirs to choose. */
  calls: number | { min: number }
  threads: number
}

interface Common {
  id: string
  /** Folder of its environment, and name of its lock. */
  environment: string
  language: 'python' | 'js'
  api: 'chat' | 'responses' | 'messages'
  /** As a recording names it (lab/identity/recording.ts). */
  shape: 'chain' | 'fan-out' | 'loose'
  /** Of one run. Null: a program per call, since nothing tells which calls belong together (docs/identity.md). */
  program: ExpectedProgram | null
}

/** A script in drivers/ that makes one agent run per key. */
export interface LibraryClient extends Common {
  kind: 'library'
  driver: string
}

/** A program that edits files, started once per run. */
export interface CodingClient extends Common {
  kind: 'coding-agent'
  agent: CodingAgentName
  task: Task
}

export type Client = LibraryClient | CodingClient

const CHAIN = { calls: 3, threads: 1 } as const

function library(
  language: 'python' | 'js',
  id: string,
  driver: string,
  rest: Partial<LibraryClient> = {},
): LibraryClient {
  const environment = rest.environment ?? id
  return { kind: 'library', api: 'chat', shape: 'chain', program: CHAIN, ...rest, id, environment, language, driver }
}

function codingAgent(
  language: 'python' | 'js',
  agent: CodingAgentName,
  { task = 'edit', ...rest }: Pick<Common, 'api' | 'shape' | 'program'> & { task?: Task },
): CodingClient {
  const id = task === 'edit' ? agent : `${agent}-${task}`
  return { kind: 'coding-agent', id, environment: agent, agent, language, task, ...rest }
}

export const CLIENTS: readonly Client[] = [
  library('python', 'openai-py', 'openai_chat.py'),
  library('python', 'openai-py-responses', 'openai_responses.py', { api: 'responses', environment: 'openai-py' }),
  library('js', 'openai-js', 'openai-chat.mjs'),
  library('js', 'openai-js-responses', 'openai-responses.mjs', { api: 'responses', environment: 'openai-js' }),
  library('python', 'anthropic-py', 'anthropic_messages.py', { api: 'messages' }),
  library('js', 'anthropic-js', 'anthropic-messages.mjs', { api: 'messages' }),
  library('python', 'openai-agents-py', 'agents_sdk.py', { api: 'responses' }),
  library('python', 'openai-agents-py-handoff', 'agents_sdk_handoff.py', {
    environment: 'openai-agents-py',
    program: { calls: 4, threads: 1 },
  }),
  library('js', 'openai-agents-js', 'agents-sdk.mjs', { api: 'responses' }),
  library('python', 'langgraph', 'langgraph_tools.py'),
  library('python', 'langgraph-branches', 'langgraph_branches.py', {
    environment: 'langgraph',
    shape: 'fan-out',
    // The call that joins the branches forks off the plan, as they do.
    program: { calls: 5, threads: 4 },
  }),
  library('python', 'langgraph-map-reduce', 'langgraph_map_reduce.py', {
    environment: 'langgraph',
    shape: 'loose',
    program: null,
  }),
  library('python', 'langgraph-map-reduce-named', 'langgraph_map_reduce_named.py', {
    environment: 'langgraph',
    shape: 'loose',
    program: { calls: 4, threads: 3 },
  }),
  library('js', 'langchain-js', 'langchain.mjs'),
  library('python', 'autogen', 'autogen.py'),
  library('python', 'pydantic-ai', 'pydantic_ai_agent.py'),
  library('python', 'instructor', 'instructor_report.py', { program: { calls: 2, threads: 1 } }),
  library('python', 'llama-index', 'llama_index_agent.py'),
  library('python', 'crewai', 'crewai_crew.py'),
  library('python', 'dspy', 'dspy_react.py', { shape: 'loose', program: null }),
  library('python', 'smolagents', 'smolagents_agent.py'),
  library('js', 'ai-sdk', 'ai-sdk.mjs', { api: 'responses' }),
  library('js', 'ai-sdk-compatible', 'ai-sdk-compatible.mjs', { environment: 'ai-sdk' }),
  library('python', 'litellm', 'litellm_loop.py'),
  codingAgent('python', 'aider', { api: 'chat', shape: 'loose', program: null }),
  codingAgent('js', 'codex', { shape: 'chain', api: 'responses', program: { calls: { min: 2 }, threads: 1 } }),
  codingAgent('js', 'claude-code', { shape: 'chain', api: 'messages', program: { calls: { min: 2 }, threads: 1 } }),
  // It asks for a title under the same session.
  codingAgent('js', 'opencode', { shape: 'chain', api: 'chat', program: { calls: { min: 3 }, threads: 2 } }),
  codingAgent('js', 'claude-code', {
    task: 'sub-agent',
    shape: 'chain',
    api: 'messages',
    program: { calls: { min: 3 }, threads: 2 },
  }),
  codingAgent('js', 'opencode', {
    task: 'sub-agent',
    shape: 'chain',
    api: 'chat',
    program: { calls: { min: 4 }, threads: 3 },
  }),
]
