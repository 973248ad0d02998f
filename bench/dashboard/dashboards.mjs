// Open dashboards for `cargo xtask bench dashboard`: real pages in Chromium, and clients that ask what those pages asked,
// in the same order and at the same intervals.
//
//   node dashboards.mjs pages  URL TOKEN SECONDS CLIENTS TRACES   two pages and CLIENTS clients; writes TRACES
//   node dashboards.mjs clients URL TOKEN SECONDS CLIENTS TRACES  CLIENTS clients, which follow TRACES
//
// Prints JSON. CHROMIUM names the browser; default: /usr/bin/chromium.
import { readFile, writeFile } from "node:fs/promises";
import http from "node:http";

const [mode, url, token, seconds, clients, traces] = process.argv.slice(2);
/** How long the pages are watched before clients follow them, in milliseconds. */
const WATCHED = 40_000;
/** How long the page that goes around stays on each page, in milliseconds. */
const STAY = 5_000;
const AROUND = ["overview", "map", "services", "services/s42", "routes", "routes/r42", "requests", "events", "access", "slos", "audit"];
/** Shorter tasks hold nobody up. */
const LONG = 100;

const pause = (time) => new Promise((done) => setTimeout(done, time));
const { port, hostname } = new URL(url);

/** One client on a connection of its own: begins somewhere in the trace, and follows it until the end. */
async function client(trace, cookie, end, figures) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (path) =>
    new Promise((done) => {
      const began = performance.now();
      const request = http.get({ host: hostname, port, path, agent, headers: { Cookie: cookie, Accept: "application/json" } }, (answer) => {
        let bytes = 0;
        answer.on("data", (part) => (bytes += part.length));
        answer.on("end", () => {
          figures.questions += 1;
          figures.bytes += bytes;
          figures.slowest = Math.max(figures.slowest, performance.now() - began);
          if (answer.statusCode !== 200) figures.failed += 1;
          done();
        });
      });
      request.on("error", () => {
        figures.failed += 1;
        done();
      });
    });
  let offset = Math.random() * trace.length_ms;
  let begun = performance.now() - offset;
  let at = trace.questions.findIndex((question) => question.at >= offset);
  if (at < 0) [at, begun] = [0, begun + trace.length_ms];
  while (performance.now() < end) {
    const question = trace.questions[at];
    await pause(Math.max(0, Math.min(begun + question.at, end) - performance.now()));
    if (performance.now() >= end) break;
    await ask(question.path);
    at += 1;
    if (at === trace.questions.length) [at, begun] = [0, begun + trace.length_ms];
  }
  agent.destroy();
}

async function login() {
  const answer = await fetch(`${url}/api/v1/session`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
  return answer.headers.getSetCookie()[0].split(";")[0];
}

async function follow(list, time) {
  const figures = { questions: 0, bytes: 0, failed: 0, slowest: 0 };
  const cookie = await login();
  const end = performance.now() + time;
  await Promise.all(Array.from({ length: Number(clients) }, (_, index) => client(list[index % list.length], cookie, end, figures)));
  return { ...figures, seconds: time / 1000 };
}

/** A page that is watched: its questions, its long tasks, its memory. */
async function open(browser) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const asked = [];
  page.on("request", (request) => {
    const { pathname, search } = new URL(request.url());
    if (request.method() === "GET" && pathname.startsWith("/api/") && !/\/(events|tap|session)$/.test(pathname)) asked.push({ at: performance.now(), path: pathname + search });
  });
  await page.addInitScript(() => {
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((task) => ({ begun: task.startTime, time: task.duration, at: location.hash })))).observe({ type: "longtask", buffered: true });
  });
  await page.goto(`${url}/#token=${token}`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const debug = await page.context().newCDPSession(page);
  const now = () => page.evaluate(() => performance.now());
  /** When collections that the bench asked for were under way, in the page's time. */
  const collections = [];
  const heap = async () => {
    const begun = await now();
    await debug.send("HeapProfiler.collectGarbage");
    collections.push([begun, await now()]);
    return (await debug.send("Runtime.getHeapUsage")).usedSize;
  };
  /** Its long tasks, without those. */
  const tasks = async () => {
    const all = await page.evaluate(() => window.longTasks);
    return all.filter((task) => !collections.some(([begun, end]) => task.begun < end && task.begun + task.time > begun));
  };
  return { page, asked, heap, tasks };
}

async function pages() {
  const { chromium } = await import("playwright-core");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const views = [await open(browser), await open(browser)];
  const [, around] = views;
  let going = true;
  const walk = (async () => {
    for (let at = 0; going; at += 1) {
      await around.page.evaluate((place) => (location.hash = `#/${place}`), AROUND[at % AROUND.length]);
      await pause(STAY);
    }
  })();
  await pause(2000);
  const begun = performance.now();
  await pause(WATCHED);
  const list = views.map(({ asked }) => ({ length_ms: WATCHED, questions: asked.map(({ at, path }) => ({ at: at - begun, path })).filter(({ at }) => at >= 0 && at < WATCHED) }));
  await writeFile(traces, JSON.stringify(list));
  for (const view of views) {
    view.asked.length = 0;
    await view.page.evaluate(() => (window.longTasks.length = 0));
  }
  const time = Number(seconds) * 1000;
  const following = follow(list, time);
  const heaps = views.map(() => []);
  const steps = Math.max(3, Math.round(time / 30_000));
  for (let step = 0; step < steps; step += 1) {
    await pause(time / steps);
    for (const [index, view] of views.entries()) heaps[index].push(await view.heap());
  }
  const figures = await following;
  const tasks = await Promise.all(views.map((view) => view.tasks()));
  going = false;
  await walk;
  await browser.close();
  return {
    ...figures,
    pages: views.map(({ asked }, index) => ({
      questions: asked.length,
      long_tasks: tasks[index].filter((task) => task.time > LONG).map(({ time, at }) => `${Math.round(time)} ms on ${at}`),
      longest_task_ms: Math.max(0, ...tasks[index].map((task) => task.time)),
      heap_bytes: heaps[index],
    })),
  };
}

const told = mode === "pages" ? await pages() : await follow(JSON.parse(await readFile(traces, "utf8")), Number(seconds) * 1000);
console.log(JSON.stringify(told));
