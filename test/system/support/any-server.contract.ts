/**
 * What the whole system keeps in front of any server that speaks the OpenAI API, driven by the `openai` package. The servers are
 * processes of their own, so that they can be killed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { unsettled } from '../../../lab/chaos/ledger.ts'
import { TcpProxy } from '../../../lab/chaos/tcp-proxy.ts'
import { freePort } from '../../../ops/system/free-port.ts'
import { reconciled } from './fleet-calls.ts'
import { eventually, System } from './system.ts'

const SERVER_START_MS = 400_000
const KEY_VARIABLE = 'ANY_SERVER_KEY'
const WRONG_KEY_VARIABLE = 'ANY_SERVER_WRONG_KEY'
const WRONG_KEY = 'sk-wrong-7d21c0'
/** Of an answer, before its connection breaks. Some text has come then. */
const EVENTS = 3
const RIVER = 'Describe how a river reaches the sea.'
/** A call that broke waits 15 s for its server, which its agent asks less and less often. */
const BACK_IN_TIME_MS = 5_000
const ALL = 'Tell me all.'
const AT_ONCE = 'Tell me all at once.'

/** The small model's own has no tools. It shows the model a call, since llama.cpp does not enforce that one is made (ggml-org/llama.cpp#27217). */
export const TOOLS_TEMPLATE = fileURLToPath(new URL('hermes-tools.jinja', import.meta.url))

export interface AnyServer {
  name: string
  command(port: number): { command: string; args: string[]; env?: Record<string, string> }
  /** Its answers are a model's: they end by themselves, keep to schemas and have a context. */
  real: boolean
  /** It was started so that it reads tool calls. Clients of another real one are told that it does not. */
  tools?: boolean
  /** It goes on with a text exactly. */
  resumes?: boolean
  /** What an agent must say of it. */
  attached: Record<string, unknown>
  flags?: string[]
  /** That it asks for. Left out: it asks for none. */
  key?: string
}

class ServerProcess {
  readonly url: string
  readonly port: number
  readonly #server: AnyServer
  #child: ChildProcess | null = null
  #output = ''

  constructor(server: AnyServer, port: number) {
    this.#server = server
    this.port = port
    this.url = `http://127.0.0.1:${port}`
  }

  async start(): Promise<void> {
    const { command, args, env = {} } = this.#server.command(this.port)
    // A group of its own: some servers have processes.
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      detached: true,
    })
    this.#child = child
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (bytes: Buffer) => {
        this.#output = (this.#output + bytes.toString()).slice(-4000)
      })
    }
    const answers = async (): Promise<true | undefined> => {
      if (child.exitCode !== null) throw new Error(`${this.#server.name} ended: ${this.#output}`)
      const { key } = this.#server
      const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` }
      const models = await fetch(`${this.url}/v1/models`, { headers }).catch(() => null)
      return models?.ok === true ? true : undefined
    }
    await eventually(`${this.#server.name} answers`, answers, SERVER_START_MS)
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child?.pid === undefined || child.exitCode !== null) return
    const ended = once(child, 'exit')
    process.kill(-child.pid, 'SIGKILL')
    await ended
  }
}

export function anyServerContract(server: AnyServer): void {
  describe(`in front of ${server.name}`, () => {
    let served: ServerProcess
    let wire: TcpProxy
    let system: System
    let model: string

    beforeAll(async () => {
      served = new ServerProcess(server, await freePort())
      await served.start()
      wire = await TcpProxy.open({ host: '127.0.0.1', port: served.port })
      system = await System.start({ engine: 'openai', flags: flagsOf(KEY_VARIABLE) })
      model = system.dev.model
    }, SERVER_START_MS)
    afterAll(async () => {
      await system?.remove()
      await wire?.close()
      await served?.kill()
    })

    function flagsOf(key_variable: string): string[] {
      const { key, flags = [] } = server
      const url = `http://127.0.0.1:${wire.port}/v1`
      if (key === undefined) return ['--url', url, ...flags]
      Object.assign(process.env, { [KEY_VARIABLE]: key, [WRONG_KEY_VARIABLE]: WRONG_KEY })
      return ['--url', url, '--key-env', key_variable, ...flags]
    }
    const client = (program: string): OpenAI => system.client({ headers: { 'X-Program-Id': program } })
    const ask = (content: string, max_tokens = 8) => ({
      ...{ model, max_tokens, temperature: 0 },
      messages: [{ role: 'user' as const, content }],
    })
    const settled = async (...programs: string[]): Promise<void> => {
      const found = { agents: system.agents, fetch: system.fetch.bind(system) }
      await reconciled(found, [{ tenant: 'local', apiKey: system.dev.apiKey }], programs)
    }

    /** The agent may not have seen yet that the server is back. */
    const servesAgain = async (program: string): Promise<void> => {
      const answered = async (): Promise<true | undefined> => {
        const answer = await client(program)
          .chat.completions.create(ask('Hello'))
          .catch(() => undefined)
        return answer === undefined ? undefined : true
      }
      await eventually('it serves again', answered, 120_000)
    }

    it('says what it is attached to', () => {
      const log = system.agentLog()
      expect(log.find(({ event }) => event === 'server_attached')).toMatchObject(server.attached)
    })

    it('streams, measures from outside, and its records are its ledger', async () => {
      const stream = await client('streams').chat.completions.create({
        ...ask('Count to five.', 24),
        ...{ stream: true, stream_options: { include_usage: true } },
      })
      let text = ''
      let usage: OpenAI.CompletionUsage | null = null
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? ''
        usage = chunk.usage ?? usage
      }
      expect(text).not.toBe('')
      expect(usage).toMatchObject({ switchyard: { measured: 'outside', emulated: false } })
      expect(usage?.completion_tokens).toBeGreaterThan(1)
      const whole = await client('streams').chat.completions.create(ask('And back.'))
      expect(whole.choices[0]?.message.content).not.toBe('')
      await settled('streams')
    })

    it('many programs at once are all served, and every record is its ledger', async () => {
      const programs = Array.from({ length: 12 }, (_, index) => `many-${index}`)
      const run = async (program: string): Promise<void> => {
        for (const turn of ['one', 'two']) await client(program).chat.completions.create(ask(`${turn} ${program}`))
      }
      await Promise.all(programs.map(run))
      await settled(...programs)
      const read = await system.fetch(`/v1/programs/${programs[0]}/calls`)
      const { data } = (await read.json()) as { data: Record<'wait_s' | 'queue_wait_s' | 'server_wait_s', number>[] }
      expect(data).toHaveLength(2)
      for (const { wait_s, queue_wait_s, server_wait_s } of data) {
        expect(queue_wait_s, 'waiting here and there are told apart').toBeGreaterThanOrEqual(0)
        expect(queue_wait_s + server_wait_s).toBeCloseTo(wait_s)
      }
    })

    it('a client that leaves ends its call, and the next one is served', async () => {
      const leaving = new AbortController()
      const stream = await client('leaves').chat.completions.create(
        { ...ask('Write a long story about the sea.', 400), stream: true },
        { signal: leaving.signal },
      )
      for await (const chunk of stream) {
        if ((chunk.choices[0]?.delta.content ?? '') !== '') break
      }
      leaving.abort()
      await eventually('the lease is settled', () => unsettled(system).open_leases === 0 || undefined)
      await client('leaves').chat.completions.create(ask('Hello'))
      await settled('leaves')
    })

    it('a model that it does not have, and a field that nobody knows how to honour, are refused by name', async () => {
      const wrong = client('wrong').chat.completions
      await expect(wrong.create({ ...ask('Hi'), model: 'no-such-model' })).rejects.toMatchObject({ status: 404 })
      const media = [{ type: 'image_url' as const, image_url: { url: 'http://169.254.169.254/' } }]
      const seen = wrong.create({ ...ask('Hi'), messages: [{ role: 'user', content: media }] })
      await expect(seen).rejects.toMatchObject({ status: 400 })
      await expect(system.client({ apiKey: 'sk-sy-wrong' }).models.list()).rejects.toMatchObject({ status: 401 })
    })

    if (server.key !== undefined) {
      it('does not start with a key that the server refuses, and names the variable that had it', async () => {
        const dataDir = mkdtempSync(path.join(tmpdir(), 'switchyard-wrong-key-'))
        onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
        const wrong = System.start({ engine: 'openai', flags: flagsOf(WRONG_KEY_VARIABLE), dataDir })
        const { message } = await wrong.then(
          () => expect.fail('it started'),
          (error: Error) => error,
        )
        expect(message).toContain(WRONG_KEY_VARIABLE)
        expect(message).not.toContain(WRONG_KEY)
      })
    }

    if (server.real) {
      it('keeps to a JSON schema', async () => {
        const schema = {
          ...{ type: 'object', properties: { colour: { enum: ['red', 'blue'] } }, required: ['colour'] },
          additionalProperties: false,
        }
        const answer = await client('schema').chat.completions.create({
          ...ask('Name a colour of the sky as JSON.', 60),
          response_format: { type: 'json_schema', json_schema: { name: 'colour', schema, strict: true } },
        })
        expect(['red', 'blue']).toContain(JSON.parse(answer.choices[0]?.message.content ?? '').colour)
      })

      it('says of a prompt beyond the context that it is', async () => {
        const long = client('long').chat.completions.create(ask('sea '.repeat(20_000)))
        await expect(long).rejects.toMatchObject({ status: 400, code: 'context_length_exceeded' })
      })
    }

    const parameters = {
      ...{ type: 'object', properties: { city: { enum: ['Rome', 'Oslo'] } }, required: ['city'] },
      additionalProperties: false,
    }
    const askWeather = () => ({
      ...ask('What is the weather in Rome?', 100),
      tools: [{ type: 'function' as const, function: { name: 'weather', parameters } }],
      tool_choice: 'required' as const,
    })
    if (server.tools) {
      const expectWeather = (name: string | undefined, args: string | undefined) => {
        expect(name).toBe('weather')
        expect(['Rome', 'Oslo']).toContain(JSON.parse(args ?? '').city)
      }

      it('calls the tool that it must call, and goes on with what the tool answered', async () => {
        const { chat } = client('tools')
        const asked = askWeather()
        const first = await chat.completions.create(asked)
        const [choice] = first.choices
        const [call] = choice?.message.tool_calls ?? []
        if (choice === undefined || call?.type !== 'function') expect.fail('no function was called')
        expect(choice.finish_reason).toBe('tool_calls')
        expectWeather(call.function.name, call.function.arguments)
        const told = { role: 'tool' as const, tool_call_id: call.id, content: 'It rains.' }
        const messages = [...asked.messages, choice.message, told]
        const after = await chat.completions.create({ ...asked, messages, tool_choice: 'auto' })
        // The call and what the tool answered are in the prompt.
        const read_tokens = (after.usage?.prompt_tokens ?? 0) - (first.usage?.prompt_tokens ?? 0)
        expect(read_tokens).toBeGreaterThan(told.content.split(' ').length)
        const said = after.choices[0]?.message
        expect(said?.content || said?.tool_calls).toBeTruthy()
        await settled('tools')
      })

      it('streams the call of a tool', async () => {
        const stream = await client('streamed-tools').chat.completions.create({ ...askWeather(), stream: true })
        let name = ''
        let args = ''
        for await (const chunk of stream) {
          const [part] = chunk.choices[0]?.delta.tool_calls ?? []
          name += part?.function?.name ?? ''
          args += part?.function?.arguments ?? ''
        }
        expectWeather(name, args)
        await settled('streamed-tools')
      })
    } else if (server.real) {
      it('refuses tools by name, since it would not read their calls', async () => {
        const refused = client('tools').chat.completions.create(askWeather())
        await expect(refused).rejects.toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'tools' })
      })
    }

    if (server.resumes) {
      it('its connection breaks in the middle of an answer: the answer goes on, and is the unbroken one', async () => {
        const asked = ask(RIVER, 48)
        const whole = await client('unbroken').chat.completions.create(asked)
        wire.holdAfter(EVENTS, RIVER)
        const stream = await client('broken').chat.completions.create({
          ...asked,
          ...{ stream: true, stream_options: { include_usage: true } },
        })
        let text = ''
        let finish_reason: string | null = null
        let usage: OpenAI.CompletionUsage | null = null
        let roles = 0
        for await (const chunk of stream) {
          const [choice] = chunk.choices
          if (choice?.delta.role !== undefined) roles += 1
          if (text === '' && (choice?.delta.content ?? '') !== '') {
            wire.set('cut')
            wire.set('open')
          }
          text += choice?.delta.content ?? ''
          finish_reason = choice?.finish_reason ?? finish_reason
          usage = chunk.usage ?? usage
        }
        expect(text).toBe(whole.choices[0]?.message.content)
        expect({ finish_reason, roles }).toEqual({ finish_reason: whole.choices[0]?.finish_reason, roles: 1 })
        const { prompt_tokens, completion_tokens } = whole.usage ?? {}
        expect(usage).toMatchObject({ prompt_tokens, completion_tokens })
        await settled('unbroken', 'broken')
        const { data } = (await (await system.fetch('/v1/programs/broken/calls')).json()) as {
          data: { outcome: string; leases: { resumed_tokens: number }[] }[]
        }
        const [call] = data
        expect(call?.outcome).toBe('completed')
        expect(call?.leases.at(-1)?.resumed_tokens).toBeGreaterThan(0)
      })
    }

    it('is killed under a call in one piece: it is computed again when it is back in time, and else no part of it comes', async () => {
      wire.holdAfter(EVENTS, AT_ONCE)
      const answering = client('at-once').chat.completions.create(ask(AT_ONCE, 60))
      const answered = answering.then(
        (answer) => answer.choices[0]?.message.content ?? '',
        () => null,
      )
      await eventually('a part of the answer has come', () => wire.isHolding || undefined)
      await served.kill()
      wire.set('cut')
      wire.set('open')
      const killed_ms = performance.now()
      await served.start()
      // A busy machine may start it later than the call can wait for it.
      if (performance.now() - killed_ms < BACK_IN_TIME_MS) expect(await answered).toMatch(/./)
      else expect(await answered).not.toBe('')
      await servesAgain('at-once')
      await settled('at-once')
    })

    it('is killed: the call under way fails in order; when it is back, calls are served', async () => {
      wire.holdAfter(EVENTS, ALL)
      const stream = await client('killed').chat.completions.create({ ...ask(ALL, 400), stream: true })
      const read = (async () => {
        for await (const chunk of stream) {
          if ((chunk.choices[0]?.delta.content ?? '') === '') continue
          await served.kill()
          wire.set('cut')
          wire.set('open')
        }
      })()
      await expect(read).rejects.toThrow()
      await served.start()
      await servesAgain('killed')
      await settled('killed')
    })
  })
}
