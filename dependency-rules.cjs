/** Import directions of the house: api → relay → actors → core; the agent sees only protocol and core of the control plane. */
const rule = (name, from, to, comment) => ({ name, severity: 'error', comment, from, to })

module.exports = {
  forbidden: [
    rule(
      'no-circular',
      {},
      { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
      'a cycle means that two files are one idea; types may refer to each other',
    ),
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
    rule(
      'relay-below-api',
      { path: '^src/relay/', pathNot: '\\.test\\.ts$' },
      { path: '^src/api/(?!errors\\.ts)' },
      'the relay does not know routes',
    ),
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
      'product-not-on-scripts',
      { path: '^(src|gpu-agent)/' },
      { path: '^(scripts|simulator|test)/' },
      'scripts, tests and the simulator use the product',
    ),
    rule(
      'simulator-plays-core-and-engine',
      { path: '^simulator/' },
      { path: '^(src/(?!core/|protocol/)|gpu-agent/src/)' },
      'the simulator has core and the engine, not the control plane or the daemon',
    ),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(node_modules|\\.gen\\.ts$|^cloudflare:)' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { extensions: ['.ts', '.mjs', '.js'], conditionNames: ['import', 'node', 'default'] },
  },
}
