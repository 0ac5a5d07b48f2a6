/** The reference of the API, from /openapi.json of the system that runs: what there is, and a page for each operation and schema. */
import { useMemo, useState } from 'hono/jsx/dom'
import { ask } from '../api.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Table } from '../parts/table.tsx'
import {
  contentOf,
  Document,
  type Field,
  fieldsOf,
  namesIn,
  type Operation,
  operationsOf,
  refName,
  type Schema,
  typeText,
  whoMay,
} from '../reference/openapi.ts'
import { referenceLink } from '../route.ts'

export function ReferenceView({ page }: { page: string }) {
  const loaded = useLoaded('/openapi.json', (signal) => ask('/openapi.json', Document, { signal }))
  return <Show of={loaded} what="the reference" show={(document) => <Pages document={document} page={page} />} />
}

function Pages({ document, page }: { document: Document; page: string }) {
  const operations = useMemo(() => operationsOf(document), [document])
  if (page === '') return <Index operations={operations} schemas={Object.keys(document.components.schemas)} />
  const operation = operations.find(({ name }) => name === page)
  if (operation !== undefined) return <OperationPage operation={operation} document={document} />
  const schema = document.components.schemas[page]
  if (schema !== undefined) return <SchemaPage name={page} schema={schema} />
  return (
    <p class="state">
      There is no operation and no schema “{page}”. <a href={referenceLink('')}>All operations</a>
    </p>
  )
}

function Index({ operations, schemas }: { operations: readonly Operation[]; schemas: readonly string[] }) {
  const [text, setText] = useState('')
  const wanted = text.trim().toLowerCase()
  const found = operations.filter(({ name, summary, responses }) => {
    const words = [name, summary, ...Object.values(responses).map(({ description }) => description)]
    return words.some((word) => word?.toLowerCase().includes(wanted))
  })
  const groups = Map.groupBy(found, ({ group }) => group)
  return (
    <>
      <div class="tools">
        <h1>API reference</h1>
        <label>
          Find
          <input type="search" value={text} onInput={(e) => setText((e.target as HTMLInputElement).value)} />
        </label>
        <a href="/openapi.json">openapi.json</a>
      </div>
      <p class="help">
        What this system answers, as it describes itself. Keys go into the header <code>Authorization: Bearer …</code>
      </p>
      {[...groups].map(([group, own]) => (
        <section key={group} class="group">
          <h2>{group}</h2>
          <ul>
            {own.map((operation) => (
              <li key={operation.name}>
                <a href={referenceLink(operation.name)}>
                  <code>{operation.name}</code>
                </a>{' '}
                <span>{aboutText(operation)}</span>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {found.length === 0 ? <p class="state">Nothing matches.</p> : null}
      {wanted === '' ? (
        <section class="group">
          <h2>Schemas</h2>
          <p class="names">
            {schemas.map((name) => (
              <a key={name} href={referenceLink(name)}>
                {name}
              </a>
            ))}
          </p>
        </section>
      ) : null}
    </>
  )
}

/** What it is for: its summary, or what it answers when all is well. */
function aboutText({ summary, responses }: Operation): string {
  const good = Object.entries(responses).find(([status]) => status.startsWith('2'))
  return summary ?? good?.[1].description ?? ''
}

const Back = () => (
  <p class="help">
    <a href={referenceLink('')}>All operations</a>
  </p>
)

function OperationPage({ operation, document }: { operation: Operation; document: Document }) {
  const { name, description, parameters = [], requestBody, responses } = operation
  const body = contentOf(requestBody?.content)
  const good = Object.entries(responses).find(([status]) => status.startsWith('2'))
  const answer = contentOf(good?.[1].content)
  return (
    <>
      <Back />
      <h1>
        <code>{name}</code>
      </h1>
      <p class="lead">{description ?? aboutText(operation)}</p>
      <p class="help">{`For ${whoMay(operation)}.`}</p>
      {parameters.length === 0 ? null : (
        <>
          <h2>Parameters</h2>
          <Fields
            label="Parameters"
            fields={parameters.map((one) => {
              const schema = one.schema ?? {}
              const [told] = fieldsOf({ properties: { [one.name]: schema } })
              const about = [one.in, one.description ?? told?.about ?? ''].filter((text) => text !== '').join(': ')
              const type = { type: typeText(schema), names: namesIn(schema) }
              return { ...type, name: one.name, isRequired: one.required === true, about }
            })}
          />
        </>
      )}
      {body === null ? null : <Body title="Body" document={document} {...body} />}
      {answer === null ? null : <Body title={`Answer ${good?.[0] ?? ''}`} document={document} {...answer} />}
      <h2>Answers</h2>
      <Table label="Answers" heads={['Status', 'When', 'Content']}>
        {Object.entries(responses).map(([status, { description: when, content }]) => {
          const told = contentOf(content)
          return (
            <tr key={status}>
              <th scope="row">{status}</th>
              <td class="text">{when}</td>
              <td>{told === null ? '–' : <Type type={typeText(told.schema)} names={namesIn(told.schema)} />}</td>
            </tr>
          )
        })}
      </Table>
    </>
  )
}

interface BodyProps {
  title: string
  type: string
  schema: Schema
  document: Document
}

function Body({ title, type, schema, document }: BodyProps) {
  const name = refName(schema)
  const fields = fieldsOf(name === null ? schema : (document.components.schemas[name] ?? schema))
  return (
    <>
      <h2>{title}</h2>
      <p class="help">
        {`${type}: `}
        <Type type={typeText(schema)} names={namesIn(schema)} />
      </p>
      {fields.length === 0 ? null : <Fields label={title} fields={fields} />}
    </>
  )
}

function SchemaPage({ name, schema }: { name: string; schema: Schema }) {
  const fields = fieldsOf(schema)
  return (
    <>
      <Back />
      <h1>{name}</h1>
      {schema.description === undefined ? null : <p class="lead">{schema.description}</p>}
      {fields.length === 0 ? <Type type={typeText(schema)} names={namesIn(schema)} /> : null}
      {fields.length === 0 ? null : <Fields label={name} fields={fields} />}
    </>
  )
}

function Fields({ label, fields }: { label: string; fields: readonly Field[] }) {
  return (
    <Table label={label} heads={['Name', 'Type', 'About']}>
      {fields.map(({ name, type, names, isRequired, about }, at) => (
        <tr key={`${name} ${at}`}>
          <th scope="row">
            <code>{name}</code> {isRequired ? null : <small>optional</small>}
          </th>
          <td>
            <Type type={type} names={names} />
          </td>
          <td class="text">{about}</td>
        </tr>
      ))}
    </Table>
  )
}

/** A type whose parts with a name lead to their pages. */
function Type({ type, names }: { type: string; names: readonly string[] }) {
  if (names.length === 0) return <code>{type}</code>
  const [name] = names
  if (names.length === 1 && name === type) return <a href={referenceLink(type)}>{type}</a>
  return (
    <>
      <code>{type}</code>{' '}
      {names.map((one) => (
        <a key={one} href={referenceLink(one)}>
          {one}
        </a>
      ))}
    </>
  )
}
