/** Why a server cannot be used, by how it answers when it is asked for its models: what happened, and what to do about it. */
export interface AttachFault {
  reason: string
  /** Asking again does not help. */
  final: boolean
}

export interface AttachedBy {
  url: string
  /** The flag that names the URL. */
  url_flag: string
  /** The variable that its key comes from; null: it was given none. */
  key_variable: string | null
}

export function attachFault(
  { status, reason }: { status: number | null; reason: string },
  { url, url_flag, key_variable }: AttachedBy,
): AttachFault {
  if (status === null) {
    return { reason: `nothing answers at ${url} (${reason}): start that server, or correct ${url_flag}`, final: false }
  }
  if (status === 401 || status === 403) {
    const how = key_variable === null ? 'name the variable that has its key with --key-env' : keyFrom(key_variable)
    return { reason: `it asks for ${key_variable === null ? 'an' : 'another'} API key: ${how}`, final: true }
  }
  // What is wrong with an answer is a sentence of its own.
  if (/^its? /.test(reason)) return { reason, final: true }
  if (status === 404 || status === 405) {
    return {
      reason: `it has no /v1/models (${reason}): correct ${url_flag} to the address of an OpenAI API`,
      final: true,
    }
  }
  return { reason: `its /v1/models cannot be read: ${reason}`, final: status < 500 }
}

function keyFrom(variable: string): string {
  return `put its key into the variable ${variable}`
}
