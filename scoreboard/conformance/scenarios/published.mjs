/**
 * Runs the published suite with the scenarios of this folder among its own:
 *
 *     node --import ./published.mjs .../@modelcontextprotocol/conformance/dist/index.js server --url ...
 *
 * The package has no extension point, so its one file is changed as Node loads it: the scenarios get the
 * helpers that their imports name, and the lists of server and of client scenarios get them; with ONLY_ADDED
 * in the environment the list of server scenarios consists of them. Nothing is written. The changes are for one version; with another one
 * this ends with an error.
 */
import { registerHooks } from 'node:module';
import { URL } from 'node:url';

const VERSION = '0.2.0-alpha.12';
const SCENARIOS = new URL('./input-required-result-conduct.ts', import.meta.url)
  .href;
const CLIENT_SCENARIOS = new URL('./mrtr-client-conduct.ts', import.meta.url)
  .href;

/** What the scenarios import from the suite's sources, by the names that the published file has for it. */
const IMPORTS = {
  '../../types': { DRAFT_PROTOCOL_VERSION: 'A' },
  '../../connection': { sendStatelessRequest: 'wt' },
  '../untestable': { untestableCheck: 'j' },
  '../../mock-server': { withRequiredDraftResultFields: 'Ft' },
  './http-base': { BaseHttpScenario: 'Bt' },
  './input-required-result-helpers': {
    isInputRequiredResult: 'R',
    isCompleteResult: 'z',
    mockElicitResponse: 'Ui',
    MRTR_SPEC_REFERENCES: 'B'
  }
};
const FIRST_LIST = 'const qs=[new cr,';
const END_OF_SERVER_SCENARIOS = 'new ia,new aa],Ys=';
const CLIENT_LIST = ',ec=[new Ne,';

function changed(source) {
  const helpers = Object.entries(Object.assign({}, ...Object.values(IMPORTS)))
    .map(([name, published]) => `${name}:${published}`)
    .join();
  for (const place of [FIRST_LIST, END_OF_SERVER_SCENARIOS, CLIENT_LIST]) {
    if (source.split(place).length !== 2) {
      throw new Error(
        `this is for version ${VERSION} of the suite, and no other`
      );
    }
  }
  return source
    .replace(
      FIRST_LIST,
      `globalThis.suite={${helpers}};const added=(await import('${SCENARIOS}')).scenarios,addedClients=(await import('${CLIENT_SCENARIOS}')).clientScenarios;${FIRST_LIST}`
    )
    .replace(CLIENT_LIST, ',ec=[...addedClients,new Ne,')
    .replace(
      END_OF_SERVER_SCENARIOS,
      process.env.ONLY_ADDED
        ? 'new ia,new aa].slice(0,0).concat(added),Ys='
        : 'new ia,new aa,...added],Ys='
    );
}

registerHooks({
  resolve(specifier, context, next) {
    if ([SCENARIOS, CLIENT_SCENARIOS].includes(context.parentURL) &&
      specifier in IMPORTS) {
      return {
        url: `suite:${specifier}`,
        format: 'module',
        shortCircuit: true
      };
    }
    return next(specifier, context);
  },
  load(url, context, next) {
    if (url.startsWith('suite:')) {
      const names = Object.keys(IMPORTS[url.slice('suite:'.length)]).join();
      return {
        format: 'module',
        source: `export const {${names}} = globalThis.suite;`,
        shortCircuit: true
      };
    }
    const loaded = next(url, context);
    return url.endsWith('/@modelcontextprotocol/conformance/dist/index.js')
      ? { ...loaded, source: changed(String(loaded.source)) }
      : loaded;
  }
});
