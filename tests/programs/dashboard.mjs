// An operator's morning at the dashboard, in a real browser. Ends with 0 when all of it went as it should.
//
// Waits are for conditions; nothing sleeps. The browser's console and its security policy must have had nothing to say.
import assert from "node:assert/strict";
import { readFileSync, renameSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { ADMIN, TOKEN, READ_TOKEN, WEB, FOUND, CHROMIUM } = process.env;
const base = `http://${ADMIN}`;
const limit = 20_000;

// Traffic: one request after the other on a kept connection, until the end.
const agent = new http.Agent({ keepAlive: true });
let going = true;
const [host, port] = WEB.split(":");
const send = (path) =>
  new Promise((done) => {
    const request = http.get({ host, port, path, agent, headers: { Host: "shop.localhost" } }, (answer) => {
      answer.resume();
      answer.on("end", () => done(answer.statusCode));
    });
    request.on("error", () => done(0));
  });
const traffic = (async () => {
  // A hundred a second at most: the browser needs the machine too.
  while (going) await Promise.all([send("/products/42"), new Promise((done) => setTimeout(done, 10))]);
})();

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const problems = [];
// Answers that are no mistake of the page: no session yet, a configuration with mistakes, a wrong token.
const EXPECTED = /status of (400|401)/;

// Where the proxy has no series and objectives, something stands in for them.
const bearer = { headers: { Authorization: `Bearer ${TOKEN}` } };
const hasSeries = (await fetch(`${base}/api/v1/series`, bearer)).status !== 404;
const steps = 30;
const each = (value) => Array.from({ length: steps }, () => value);
const one = { name: "", service: null, requests: each(90), errors: each(1), bytes_in: each(0), bytes_out: each(450), p50_us: each(300), p99_us: each(900) };
const series = { step_s: 10, start: Math.floor(Date.now() / 1000) - 10 * steps, kind: "process", series: [one], connections: each(1), in_flight: each(1), saturation: each(0.01) };

async function open(hash, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(limit);
  if (!hasSeries) {
    await context.route("**/api/v1/series*", (route) => route.fulfill({ json: series }));
    await context.route("**/api/v1/slos", (route) => route.fulfill({ json: { slos: [] } }));
  }
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !EXPECTED.test(message.text())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration))).observe({ type: "longtask" });
  });
  await page.goto(`${base}/${hash}`);
  return page;
}

// Contrast, labels, names, roles: what `axe-core` finds on the page as it is now. It is run by the debugger, so the policy
// of the page has no say, and nothing of it is in the product.
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const judged = [];
async function judge(page, name, rules) {
  await page.evaluate(axe);
  const found = await page.evaluate((rules) => window.axe.run(document, { runOnly: rules, resultTypes: ["violations"] }), rules);
  judged.push(name);
  for (const { id, help, nodes } of found.violations) {
    for (const { html, failureSummary } of nodes.slice(0, 3)) problems.push(`${name}: ${id}: ${help}: ${html.slice(0, 200)}: ${failureSummary}`);
  }
}
const ALL_RULES = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
const COLOURS = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

// To the error stream, which is shown of a program that has not ended in time.
const step = (text) => console.error(text);
const title = (page, name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

try {
  step("a wrong token is refused, the right one logs in");
  const page = await open("");
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("the token is not the right one").waitFor();
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Log in" }).click();
  await title(page, "Overview");
  assert.equal(await page.evaluate(() => document.cookie), "", "no script reads the cookie");

  step("the link of the demo logs in and leaves no token in the address");
  const linked = await open(`#token=${TOKEN}`);
  await title(linked, "Overview");
  assert.ok(!linked.url().includes("token"), linked.url());
  await linked.context().close();

  step("traffic is drawn; keys lead to pages; figures move");
  await page.getByRole("region", { name: "Requests per second" }).locator("canvas").waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await title(page, "Services");
  const rate = page.locator("tr", { hasText: "products" }).locator("td").nth(3);
  await page.waitForFunction((cell) => Number.parseFloat(cell.textContent) > 0, await rate.elementHandle());
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");

  step("an endpoint drains, and is used again");
  await page.getByRole("link", { name: "products" }).click();
  await title(page, "products");
  const row = page.locator("tbody tr").first();
  await row.getByRole("button", { name: "Drain" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain" }).click();
  await row.getByText("draining").waitFor();
  const seen = await page.request.get(`${base}/api/v1/services/products`);
  assert.equal((await seen.json()).endpoints[0].state, "draining");
  await row.getByRole("button", { name: "Use again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Use again" }).click();
  await row.getByText("ready").waitFor();

  step("an endpoint is added and removed");
  await page.getByRole("button", { name: "Add an endpoint" }).click();
  await page.getByLabel("URL").fill("http://127.0.0.1:2");
  await page.getByLabel("Weight, 0 to 1000").fill("0");
  await page.getByRole("dialog").getByRole("button", { name: "Add" }).click();
  const added = page.locator("tbody tr", { hasText: "http://127.0.0.1:2" });
  await added.getByText("added through the admin API").waitFor();
  await added.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByText("To have it back, add it again.").waitFor();
  await judge(page, "a dialog", ALL_RULES);
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await added.waitFor({ state: "detached" });

  step("a source fails, what it has found stays in use, and it recovers");
  await page.goto(`${base}/#/sources`);
  const source = page.locator("tbody tr", { hasText: FOUND });
  await source.getByText("current", { exact: true }).waitFor();
  await judge(page, "a source that works", ALL_RULES);
  renameSync(FOUND, `${FOUND}.away`);
  await source.getByText("failing", { exact: true }).waitFor();
  await source.getByText("what is known stays in use").waitFor();
  await page.getByText("One source fails.").waitFor();
  await judge(page, "a source that fails", ALL_RULES);
  await source.getByRole("link", { name: "found" }).click();
  await title(page, "found");
  await page.getByText("1 of 1 endpoint comes from the source file").waitFor();
  await page.locator("tbody tr", { hasText: `found by file: endpoints at ${FOUND}` }).getByText("ready").waitFor();
  await page.goto(`${base}/#/overview`);
  await page.getByText("A source fails: found.").waitFor();
  await page.goto(`${base}/#/services`);
  await page.locator("tbody tr", { hasText: "found" }).getByRole("link", { name: "file" }).click();
  await title(page, "Sources");
  renameSync(`${FOUND}.away`, FOUND);
  await source.getByText("current", { exact: true }).waitFor();
  await page.getByText("One source fails.").waitFor({ state: "detached" });
  await page.goto(`${base}/#/events`);
  await page.locator("tr", { hasText: "source failed" }).getByRole("link", { name: "its source" }).waitFor();
  await page.locator("tr", { hasText: "source recovered" }).getByText("works again").waitFor();

  step("events tell of it");
  await page.goto(`${base}/#/events`);
  await page.getByText("drain finished").first().waitFor();

  step("a failed request is found, and why it failed is read");
  await send("/legacy/7");
  await page.goto(`${base}/#/requests?status=5xx`);
  await page.getByRole("link", { name: "GET shop.localhost/legacy/7" }).first().click();
  const why = page.locator("#why");
  await why.getByText("connection refused").first().waitFor();
  assert.match(await why.textContent(), /The attempt at http:\/\/127\.0\.0\.1:\d+ failed after .*connection refused/);
  assert.match(await page.getByLabel("curl command").inputValue(), /^curl -i 'http:\/\/shop\.localhost\/legacy\/7'$/);

  step("a live tap shows requests as they end, those that fit");
  await page.goto(`${base}/#/requests`);
  await page.getByRole("button", { name: "Live tap" }).click();
  const tapped = page.locator("tbody tr");
  await tapped.filter({ hasText: "/products/42" }).first().waitFor();
  await page.getByLabel("Status").fill("5xx");
  await page.getByRole("button", { name: "Filter", exact: true }).click();
  // The tap begins anew with the filter; the first of these may come before that.
  const begun = performance.now();
  while ((await tapped.filter({ hasText: "/legacy/8" }).count()) === 0) {
    assert.ok(performance.now() - begun < limit, "the tap shows what fits");
    await send("/legacy/8");
  }
  await page.getByRole("button", { name: "Stop the tap" }).click();
  await page.getByRole("button", { name: "Live tap" }).waitFor();

  step("explain says where a request goes");
  await page.goto(`${base}/#/explain`);
  await page.getByLabel("URL or path").fill("http://shop.localhost/products/42");
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  await page.locator("#outcome").getByText("Route “products” takes it, and it is forwarded").waitFor();
  await page.getByText(/^written in .*\.yaml:\d+$/).first().waitFor();

  step("the map shows the way");
  await page.goto(`${base}/#/map`);
  await page.locator("svg.map text", { hasText: /^legacy$/ }).first().waitFor();

  step("a mistake in the configuration is shown at its line");
  await page.goto(`${base}/#/configuration`);
  const editor = page.getByLabel("Configuration", { exact: true });
  await editor.waitFor();
  const before = await editor.inputValue();
  const line = before.split("\n").findIndex((text) => text.startsWith("routes:")) + 1;
  await editor.fill(before.replace("\nroutes:", "\nroutez:"));
  await page.getByText(`Line ${line}, column 1:`).first().waitFor();
  await page.locator(".gutter .mistake", { hasText: new RegExp(`^${line}$`) }).waitFor();
  assert.ok(await page.getByRole("button", { name: "Apply…" }).isDisabled());

  step("completion offers what the schema has");
  await editor.fill(`${before}\n`);
  await editor.press("Control+End");
  await editor.pressSequentially("shut");
  await page.getByRole("option", { name: /^shutdown/ }).waitFor();
  await editor.press("Escape");

  step("one without a mistake is compared, applied and watched");
  await editor.fill(before.replace("path: /products/*", "path: /goods/*"));
  await page.getByText("Checked: it can be applied").waitFor();
  await page.getByRole("cell", { name: /route products.*\.yaml:\d+/ }).waitFor();
  await page.getByRole("button", { name: "Apply…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await page.getByText(/Applied as number 2\./).waitFor();
  await page.goto(`${base}/#/routes`);
  await page.getByText("shop.localhost /goods/*").waitFor();
  await page.locator("tr", { hasText: "legacy" }).getByText(/\.yaml:\d+$/).waitFor();

  step("the one before is brought back");
  await page.goto(`${base}/#/configuration/history`);
  await page.locator("tr", { hasText: "start" }).getByRole("button", { name: "Bring back" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Bring back" }).click();
  await page.locator("tr", { hasText: "rollback" }).getByText("running").waitFor();
  await page.goto(`${base}/#/routes`);
  await page.getByText("shop.localhost /products/*").waitFor();

  step("an address is blocked");
  await page.goto(`${base}/#/access/blocked`);
  await page.getByLabel("Network or address").fill("198.51.100.7");
  await page.getByLabel("Reason").fill("a test");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("cell", { name: "198.51.100.7" }).waitFor();

  step("the audit log has who did what");
  await page.goto(`${base}/#/audit`);
  await page.locator("tr", { hasText: "POST /api/v1/access/blocked" }).getByText("Before and after").click();
  await page.getByText('"reason": "a test"').waitFor();

  step("every page can be read by everybody, light and dark");
  await page.goto(`${base}/#/requests?status=5xx`);
  const failed = await page.getByRole("link", { name: "GET shop.localhost/legacy/8" }).first().getAttribute("href");
  const pages = [
    "#/overview", "#/map", "#/services", "#/services/products", "#/services/legacy", "#/services/found", "#/sources", "#/sources?service=found", "#/routes", "#/routes/products", "#/requests", failed,
    "#/explain?method=GET&url=http%3A%2F%2Fshop.localhost%2Fproducts%2F42", "#/configuration", "#/configuration/history", "#/events",
    "#/certificates", "#/access", "#/access/blocked", "#/slos", "#/audit", "#/nothing",
  ];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const place of pages) {
      await page.goto(`${base}/${place}`);
      await page.locator("main :is(h1, p)").first().waitFor();
      await page.getByText("Loading…").waitFor({ state: "detached" });
      // In the dark only colours differ.
      await judge(page, `${place} (${colorScheme})`, colorScheme === "light" ? ALL_RULES : COLOURS);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });

  step("a reader sees no button that changes something; a phone has every page");
  const phone = await open(`#token=${READ_TOKEN}`, { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  await title(phone, "Overview");
  for (const place of pages) {
    await phone.goto(`${base}/${place}`);
    await phone.locator("main :is(h1, p)").first().waitFor();
    await phone.getByText("Loading…").waitFor({ state: "detached" });
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    assert.ok(!wide, `${place} is wider than the phone`);
    assert.equal(await phone.getByRole("button", { name: /Drain|Remove|Apply/ }).and(phone.locator(":enabled")).count(), 0, place);
  }
  await phone.context().close();

  step("who logs out is out");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  await judge(page, "login", ALL_RULES);
  assert.equal((await page.request.get(`${base}/api/v1/status`)).status(), 401);

  assert.deepEqual(await page.evaluate(() => window.violations), [], "the policy was kept");
  assert.deepEqual(problems, [], "the console is silent");
  console.log(`long tasks: ${JSON.stringify(await page.evaluate(() => window.tasks))}`);
} finally {
  going = false;
  await browser.close();
  await traffic;
  agent.destroy();
}
console.log("all of it");
