/** `npm run fuzz`: the API, or with `orders` the two languages' orders of programs. */
import { runApiCommand } from './fuzz/api/command.ts'
import { runOrdersCommand } from './fuzz/orders/command.ts'

const [first, ...rest] = process.argv.slice(2)
if (first === 'orders') await runOrdersCommand(rest)
else await runApiCommand(process.argv.slice(2))
