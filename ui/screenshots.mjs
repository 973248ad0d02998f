// Pictures of every page of a running proxy: light and dark, desktop and phone.
//   npm install --no-save playwright-core@1.65.1
//   node screenshots.mjs URL TOKEN FOLDER [PAGE…]
// CHROMIUM names the browser; default: /usr/bin/chromium. SIZES=phone and SCHEMES=light choose among them.
import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";

const [url, token, folder, ...only] = process.argv.slice(2);
if (!folder) throw new Error("usage: node screenshots.mjs URL TOKEN FOLDER [PAGE…]");
await mkdir(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

const first = await browser.newPage();
await first.goto(`${url}/#token=${token}`);
await first.getByRole("heading", { name: "Overview" }).waitFor();
const cookies = await first.context().cookies(`${url}/api/`);
const of = async (path) => (await first.request.get(`${url}/api/v1/${path}`)).json();
const services = (await of("services")).services;
const sources = (await of("sources")).sources.filter((source) => source.endpoints);
const routes = (await of("routes")).routes;
const failed = (await of("requests?limit=200&status=5xx")).requests[0];
const pages = {
  overview: "overview",
  map: "map",
  services: "services",
  service: `services/${encodeURIComponent(services[0]?.name ?? "")}`,
  sources: "sources",
  found: `services/${encodeURIComponent(sources[0]?.services[0] ?? "")}`,
  routes: "routes",
  route: `routes/${encodeURIComponent(routes.find((route) => route.to.length > 1)?.name ?? routes[0]?.name ?? "")}`,
  requests: "requests",
  request: `requests/${encodeURIComponent(failed?.id ?? "none")}`,
  explain: "explain?method=GET&url=http%3A%2F%2Fshop.localhost%2Fproducts%2F42",
  configuration: "configuration",
  diagnostic: "configuration",
  history: "configuration/history",
  events: "events",
  certificates: "certificates",
  access: "access",
  slos: "slos",
  audit: "audit",
};
/** What is done on a page before the picture. */
const acts = {
  diagnostic: async (page) => {
    const editor = page.getByLabel("Configuration", { exact: true });
    const text = await editor.inputValue();
    await editor.fill(text.replace("\nroutes:", "\nroutez:"));
    await page.locator(".gutter .mistake").first().waitFor();
  },
};
for (const [size, viewport] of Object.entries(sizes).filter(([size]) => (process.env.SIZES ?? "desktop,phone").includes(size))) {
  for (const colorScheme of (process.env.SCHEMES ?? "light,dark").split(",")) {
    const context = await browser.newContext({ viewport, colorScheme });
    await context.addCookies(cookies);
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && console.log(`${size} ${colorScheme}:`, message.text()));
    page.on("pageerror", (error) => console.log(`${size} ${colorScheme}:`, error.message));
    for (const [name, path] of Object.entries(pages)) {
      if (only.length && !only.includes(name)) continue;
      await page.goto(`${url}/#/${path}`);
      await page.locator("main h1").first().waitFor();
      await acts[name]?.(page);
      await page.waitForTimeout(2500);
      await page.screenshot({ path: `${folder}/${name}-${size}-${colorScheme}.png` });
    }
    await context.close();
  }
}
await browser.close();
