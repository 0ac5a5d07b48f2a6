/**
 * The interface between the front of a vLLM and what runs that vLLM: a process of ours (started, found again, restarted) or
 * one that runs elsewhere. The front knows where to call it and hears when that changes; it never starts or ends one.
 */
import type { NativeApi } from '../../../../../src/protocol/index.ts'
import type { KeyHeader } from '../../attached/ask-server.ts'
import type { Continuing } from '../../attached/continuing/continuing.ts'
import type { ServerProfile } from '../../attached/server-profile.ts'
import type { QueuedServer } from '../../attached/server-queue.ts'

/** Where a vLLM that is ready can be called. */
export interface VllmAddress {
  /** Base, without /v1. */
  url: string
  /** Key that it asks for. */
  api_key: string | null
  api_version?: string | null
  /** Left out or null: as its API and its host say. */
  key_header?: KeyHeader | null
  /** Path of our plug-in's side channel; null: a vLLM without the plug-in. */
  socket: string | null
  /** The name that it knows its model by. */
  served_model: string
  context_tokens_max: number
  kv_capacity_tokens: number
  seats: number
  /**
   * What of the ticket goes with a call. `plugin`: everything. `fcfs`: the salt of its prefix cache. `priority`: that, and a
   * priority of its own queue. `provider`: which calls share a prefix, for OpenAI's cache. `none`: nothing, since it is no vLLM.
   */
  order: 'plugin' | 'fcfs' | 'priority' | 'provider' | 'none'
  /**
   * Another one means another process, whose KV is empty. With the plug-in: the epoch of its hello; without: one per start
   * or per outage of the server.
   */
  epoch: string
  /** For the agent's queue before it; null: it orders programs itself. */
  queued: QueuedServer | null
  /** What of a body it honours. */
  profile: ServerProfile
  /** APIs beside chat that it speaks and is called by. Left out: none. */
  native_apis?: readonly NativeApi[]
  /** How it goes on with a text. Left out or null: it does not, or that is not known. */
  continues?: Continuing | null
  /** It writes a chunk for each token. Left out: that is not known. */
  token_chunks?: boolean
}

export interface VllmServerListener {
  up(address: VllmAddress): void
  /** Every call that it had is lost. */
  down(reason: string): void
}

/** A vLLM, ours or not. */
export interface VllmServer {
  /**
   * Resolves when first ready, after `up`; rejects with a sentence for the operator. Afterwards the listener hears of each
   * end and return.
   */
  start(listener: VllmServerListener): Promise<void>
  /** The front found it hanging or broken: end it and start it again (one that is not ours: probe until it answers). */
  suspect(reason: string): void
  /** Ends what was started. The listener hears nothing more. */
  stop(): Promise<void>
}
