/** Import directions of the house: api → relay → actors → core; the agent sees only protocol and core of the control plane. */
const rule = (name, from, to, comment) => ({ name, severity: 'error', comment, from, to })

module.exports = {
  forbidden: [
    rule('no-circular', {}, { circular: true }, 'a cycle, of types too, means that two files are one idea'),
    rule(
      'core-is-pure',
      { path: '^src/core/', pathNot: '\\.test\\.ts$' },
      { pathNot: '^src/(core|protocol)/' },
      'core imports nothing of the platform',
    ),
    rule(
      'protocol-is-leaf',
      { path: '^src/protocol/' },
      { path: '^(src/(?!protocol/)|gpu-agent/)' },
      'protocol imports nothing of ours',
    ),
    rule(
      'platform-below-store',
      { path: '^src/platform/', pathNot: '\\.test\\.ts$' },
      { path: '^src/(store|actors|relay|api)/' },
      'platform is what every room of the Worker may use',
    ),
    rule(
      'store-below-actors',
      { path: '^src/store/' },
      { path: '^src/(actors|relay|api)/' },
      'store is below the actors',
    ),
    rule(
      'actors-below-relay',
      { path: '^src/actors/' },
      { path: '^src/(relay|api)/' },
      'actors do not know who calls them',
    ),
    rule('relay-below-api', { path: '^src/relay/' }, { path: '^src/api/' }, 'the relay does not know routes'),
    rule(
      'agent-is-alone',
      { path: '^gpu-agent/' },
      { path: '^src/(?!core/|protocol/)' },
      'a GPU host has no control plane',
    ),
    rule(
      'engine-below-daemon',
      { path: '^gpu-agent/engine/' },
      { path: '^gpu-agent/src/' },
      'the engine does not know the daemon',
    ),
    rule(
      'planner-is-pure',
      { path: '^gpu-agent/planner/', pathNot: '(\\.test\\.ts$|/testing/)' },
      { path: '^gpu-agent/(src|engine)/' },
      'plans are made in simulated time; tests hold it to the engine',
    ),
    rule(
      'order-below-memory',
      { path: '^gpu-agent/engine/order/' },
      { path: '^gpu-agent/engine/(memory|backends)/', pathNot: '^gpu-agent/engine/memory/handling/waste\\.ts$' },
      'the order knows nothing of KV or backends, but for what memory costs',
    ),
    rule(
      'waste-is-pure',
      { path: '^gpu-agent/engine/memory/handling/waste\\.ts$' },
      { pathNot: '^src/core/' },
      'the order may import it because it imports nothing of the engine',
    ),
    rule(
      'product-is-alone',
      { path: '^(src|gpu-agent)/' },
      { path: '^(cli|lab|ops|simulator|test)/' },
      'the product does not know who starts, measures or tests it',
    ),
    rule(
      'simulator-plays-core-and-engine',
      { path: '^simulator/' },
      { path: '^(src/(?!core/|protocol/)|gpu-agent/src/|ops/|lab/|test/)' },
      'the simulator has core and the engine, and knows no running system',
    ),
    rule('ops-without-lab', { path: '^ops/' }, { path: '^(lab|test)/' }, 'users run ops without the lab'),
    rule(
      'ops-plans-alone-with-the-simulator',
      { path: '^ops/', pathNot: '^ops/switchyard/plan/' },
      { path: '^simulator/' },
      'a capacity plan plays programs; nothing else that users run does',
    ),
    rule(
      'client-library-is-alone',
      { path: '^clients/' },
      { path: '^(src|gpu-agent|cli|lab|ops|simulator|test)/' },
      'it is published by itself',
    ),
    rule(
      'page-is-alone',
      { path: '^dashboard/', pathNot: '^dashboard/planning/' },
      { path: '^(src/(?!protocol/)|gpu-agent|cli|clients|lab|ops|simulator|test)/' },
      'the page knows the API, and the events as protocol has them',
    ),
    rule(
      'page-plans-with-the-simulator',
      { path: '^dashboard/planning/' },
      { path: '^(src/(?!(protocol|core)/)|gpu-agent/(?!engine/)|cli|clients|lab|ops|test)/' },
      'a capacity plan is played in the browser',
    ),
    rule(
      'cli-is-leaf',
      { path: '^cli/' },
      { path: '^(src|gpu-agent|lab|ops|simulator|test)/' },
      'cli is flags and tables',
    ),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(node_modules|\\.gen\\.ts$|^cloudflare:)' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { extensions: ['.ts', '.mjs', '.js'], conditionNames: ['import', 'node', 'default'] },
  },
}
