/** `npm run simulate -- COMMAND`. */
import { fail } from '../cli/flags.ts'
import { convertCommand } from '../simulator/convert/convert-command.ts'
import { planCommand } from '../simulator/fleet/fleet-command.ts'
import { quotaCommand } from '../simulator/fleet/quota-command.ts'
import { forecastCommand } from '../simulator/forecast/forecast-command.ts'
import { applicationPlanCommand, isForApplication } from '../simulator/planner/plan-command.ts'
import { runCommand } from '../simulator/run/run-command.ts'
import { scaleCommand } from '../simulator/scale/scale-command.ts'
import { fidelityCommand } from './fidelity/fidelity-command.ts'

const HELP = `npm run simulate -- COMMAND [flags]

  run        programs × policies × rates × balancers × seeds on a virtual clock
  plan       how many engines a workload needs to meet a target, and what they cost;
             with --application: in which stages an application of several models would run
  quota      which limits of a hosted API a workload needs to meet a target
  scale      throughput at an objective on 1 to 1,000 engines
  fidelity   the simulator against engines in real time
  forecast   how well tools, their times and the output of calls are foreseen
  convert    a log of OpenAI-style requests into a trace that run plays

Each takes --help.

docs/simulator.md has examples; simulator/README.md says what is modelled and what is not.`

const [command, ...argv] = process.argv.slice(2)
if (command === undefined || command === '--help' || command === '-h') console.log(HELP)
else if (command === 'run') await runCommand(argv)
else if (command === 'plan' && isForApplication(argv)) applicationPlanCommand(argv)
else if (command === 'plan') await planCommand(argv)
else if (command === 'quota') await quotaCommand(argv)
else if (command === 'scale') await scaleCommand(argv)
else if (command === 'fidelity') await fidelityCommand(argv)
else if (command === 'forecast') forecastCommand(argv)
else if (command === 'convert') convertCommand(argv)
else fail(`there is no command ${command}; there are run, plan, quota, scale, fidelity, forecast and convert`)
