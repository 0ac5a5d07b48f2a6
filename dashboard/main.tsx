/** Starts the page. */
import { render } from 'hono/jsx/dom'
import { App } from './app.tsx'

const root = document.getElementById('page')
if (root !== null) render(<App />, root)
