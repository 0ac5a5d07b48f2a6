/**
 * How a server without our plug-in goes on with a text that is part of an answer, as calls to it have shown (probe-continuing.ts).
 * There is no way that all servers share: vLLM and SGLang leave the last message open where they are told to, llama.cpp and
 * providers of Claude go on with a last message of the assistant, and `/v1/completions` goes on with its prompt.
 */
export interface Continuing {
  /** Null: no way of chat was exact. */
  chat: ContinuingChat | null
  /** A prompt with the text behind it. */
  completions: boolean
}

export const CHAT_WAYS = ['continue_final_message', 'last_message'] as const
export type ChatWay = (typeof CHAT_WAYS)[number]

export interface ContinuingChat {
  way: ChatWay
  /** Its answer begins with the text that it goes on with, as llama.cpp's does. */
  echoes: boolean
  /** White space at the end of that text counts. Some templates leave it out. */
  keeps_space: boolean
}

type Fields = Readonly<Record<string, unknown>>

/** Fields of a chat that goes on behind `text`. */
export function continuedChat(messages: readonly unknown[], text: string, way: ChatWay): Fields {
  if (way === 'continue_final_message') {
    const open = { continue_final_message: true, add_generation_prompt: false }
    return { messages: [...messages, { role: 'assistant', content: text }], ...open }
  }
  // The client may have begun the answer itself.
  const last = messages.at(-1) as Fields | undefined
  if (last?.role !== 'assistant' || typeof last.content !== 'string') {
    return { messages: [...messages, { role: 'assistant', content: text }] }
  }
  return { messages: [...messages.slice(0, -1), { ...last, content: last.content + text }] }
}

export function continuesAny(continuing: Continuing | null): boolean {
  return continuing !== null && (continuing.chat !== null || continuing.completions)
}
