/** An action that is done only after a second click, and says what came of it. */
import { type Child, useRef, useState } from 'hono/jsx/dom'

interface Action {
  /** On the button. */
  name: string
  /** What it does to whom. */
  question: string
  act: () => Promise<string>
  isGrave?: boolean
  /** What it needs to be told, in the dialog. */
  children?: Child
}

export function ConfirmedAction({ name, question, act, isGrave = false, children = null }: Action) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [told, setTold] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const confirm = () => {
    setBusy(true)
    act().then(
      (done) => finish(done),
      (error: unknown) => finish(error instanceof Error ? error.message : String(error)),
    )
  }
  const finish = (text: string) => {
    setBusy(false)
    setTold(text)
    dialog.current?.close()
  }
  return (
    <span class="action">
      <button type="button" class={isGrave ? 'grave' : ''} onClick={() => dialog.current?.showModal()}>
        {name}
      </button>
      {told === null ? null : <span role="status">{told}</span>}
      <dialog ref={dialog} aria-label={name}>
        <p>{question}</p>
        {children}
        <div class="buttons">
          <button type="button" class={isGrave ? 'grave' : ''} disabled={isBusy} onClick={confirm}>
            {name}
          </button>
          <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </dialog>
    </span>
  )
}
