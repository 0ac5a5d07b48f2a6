/** Providers that are known by their address: what they are called by, and how their limits are told apart. */

const AZURE = /(^|\.)(openai|cognitiveservices|services\.ai)\.azure\.(com|us|cn)$/

/** Also in Azure: it knows `prompt_cache_key`, which others may refuse. */
export function isOpenAi(url: string): boolean {
  return /(^|\.)openai\.com$/.test(new URL(url).hostname) || isAzure(url)
}

/** It takes its key in a header of its own. */
export function isAzure(url: string): boolean {
  return AZURE.test(new URL(url).hostname)
}

export function isAnthropic(url: string): boolean {
  return /(^|\.)anthropic\.com$/.test(new URL(url).hostname)
}
