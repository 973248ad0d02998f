// Prints the outcome of every test that applies to a proxy, as the suite judges it: node --eval THIS -- SUITE RESULTS.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [suite, file] = process.argv.slice(1)
const load = path => import(pathToFileURL(join(resolve(suite), path)))
const { default: groups } = await load('tests/index.mjs')
const { determineTestResult, resultTypes } = await load('test-engine/lib/results.mjs')
const results = JSON.parse(readFileSync(file, 'utf8'))
const names = new Map(Object.entries(resultTypes).map(([name, type]) => [type, name]))

const judged = []
for (const group of groups) {
  for (const test of group.tests) {
    if (test.browser_only) continue
    const outcome = names.get(determineTestResult(groups, test.id, results)) ?? 'unknown'
    const told = Array.isArray(results[test.id]) ? results[test.id].join(': ') : ''
    const reason = outcome === 'dependency_fail' ? `depends on ${test.depends_on.join(', ')}` : told
    judged.push({ id: test.id, group: group.id, name: test.name, kind: test.kind ?? 'required', outcome, reason })
  }
}
console.log(JSON.stringify(judged))
