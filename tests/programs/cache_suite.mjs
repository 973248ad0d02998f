// The public suite of tests for HTTP caches (the package `http-cache-tests`), for tests/scenario/cache_suite.rs.
//
// `origin` is its origin server, which says `Listening on http://127.0.0.1:PORT/`. `play URL` plays the tests that apply
// to a proxy to the one at URL, or only those that are named behind it and what they depend on, and prints a line for
// each: what kind it is of, its name, `pass` or `fail` as the suite judges, and what was told of it.
import http from 'node:http';

const [what, base, ...only] = process.argv.slice(2);

if (what === 'origin') {
  // It takes its settings from npm, and would listen everywhere.
  Object.assign(process.env, { npm_config_protocol: 'http', npm_config_port: '0', npm_config_pidfile: '/dev/null' });
  const { listen } = http.Server.prototype;
  http.Server.prototype.listen = function (port) {
    return listen.call(this, port, '127.0.0.1');
  };
  console.log = console.error;
  await import('http-cache-tests/server/server.mjs');
} else {
  await play();
}

async function play() {
  const { default: fetch } = await import('node-fetch');
  const { default: groups } = await import('http-cache-tests/tests/index.mjs');
  const { runTests, getResults } = await import('http-cache-tests/client/runner.mjs');
  const { determineTestResult } = await import('http-cache-tests/lib/display.mjs');
  const tests = new Map(groups.flatMap(group => group.tests).map(test => [test.id, test]));
  const wanted = new Set();
  const want = id => {
    wanted.add(id);
    tests.get(id).depends_on?.forEach(want);
  };
  (only.length > 0 ? only : [...tests.keys()]).forEach(want);
  const chosen = groups.map(group => ({ ...group, tests: group.tests.filter(test => wanted.has(test.id)) }));
  await runTests(chosen, fetch, false, base);
  const results = getResults();
  for (const test of chosen.flatMap(group => group.tests).filter(test => !test.browser_only)) {
    const [, , symbol] = determineTestResult(groups, test.id, results);
    // A behaviour that is only recorded is `Y` or `N`.
    const outcome = symbol === '✅' || symbol === 'Y' ? 'pass' : 'fail';
    const told = Array.isArray(results[test.id]) ? results[test.id].join(': ') : `depends on ${test.depends_on}`;
    console.log([test.kind ?? 'required', test.id, outcome, outcome === 'pass' ? '' : told].join('\t'));
  }
  process.exit();
}
