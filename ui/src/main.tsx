// The dashboard: the login, the frame around the pages, the keyboard.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask, whenSessionIsOver } from "./api";
import { forget, retry, useLive, useLost } from "./live";
import { go, here, link, usePlace } from "./router";
import { Failure, Head, useAction } from "./parts/basics";
import { applyTheme, turnTheme } from "./theme";
import type { Status } from "./types";
import { Role } from "./role";
import { Overview } from "./pages/overview";
import { MapPage } from "./pages/map";
import { ServicePage, ServicesPage } from "./pages/services";
import { SourcesPage } from "./pages/sources";
import { RoutePage, RoutesPage } from "./pages/routes";
import { RequestPage, RequestsPage } from "./pages/requests";
import { ExplainPage } from "./pages/explain";
import { ConfigurationPage } from "./pages/configuration";
import { EventsPage } from "./pages/events";
import { CertificatesPage } from "./pages/certificates";
import { AccessPage } from "./pages/access";
import { SlosPage } from "./pages/slos";
import { AuditPage } from "./pages/audit";
import "./style.css";

/** Path, title, and the letter that follows `g`. */
const PAGES: [string, string, string][] = [
  ["overview", "Overview", "o"],
  ["map", "Map", "m"],
  ["services", "Services", "s"],
  ["sources", "Sources", "d"],
  ["routes", "Routes", "r"],
  ["requests", "Requests", "q"],
  ["explain", "Explain", "x"],
  ["configuration", "Configuration", "c"],
  ["events", "Events", "e"],
  ["certificates", "Certificates", "t"],
  ["access", "Access", "a"],
  ["slos", "SLOs", "l"],
  ["audit", "Audit log", "u"],
];

function Page() {
  const { path, query } = usePlace();
  const [page, name, more] = path;
  switch (page) {
    case undefined:
    case "overview":
      return <Overview />;
    case "map":
      return <MapPage />;
    case "services":
      return name ? <ServicePage key={name} name={name} /> : <ServicesPage />;
    case "sources":
      return <SourcesPage service={query.get("service") ?? undefined} />;
    case "routes":
      return name ? <RoutePage key={name} name={name} /> : <RoutesPage />;
    case "requests":
      return name ? <RequestPage key={name} id={name} /> : <RequestsPage query={query} />;
    case "explain":
      return <ExplainPage query={query} />;
    case "configuration":
      return <ConfigurationPage part={name ?? "edit"} />;
    case "events":
      return <EventsPage />;
    case "certificates":
      return <CertificatesPage />;
    case "access":
      return <AccessPage list={name} />;
    case "slos":
      return <SlosPage />;
    case "audit":
      return <AuditPage />;
    default:
      return <><Head title="No such page" /><p>There is no page “{[page, name, more].filter(Boolean).join("/")}”. <a href={link(["overview"])}>Overview</a></p></>;
  }
}

/** Tells that the proxy does not answer, and when it is asked again. */
function Lost() {
  const lost = useLost();
  if (!lost) return null;
  return (
    <div class="banner" role="alert">
      Connection lost: the proxy does not answer. What you see is what was last known; it is asked again by itself.{" "}
      <button onClick={retry}>Ask now</button>
    </div>
  );
}

function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={close} aria-label="Keyboard">
      <h1>Keyboard</h1>
      <table>
        <tbody>
          {PAGES.map(([path, title, letter]) => <tr key={path}><td><kbd>g</kbd> <kbd>{letter}</kbd></td><td>{title}</td></tr>)}
          <tr><td><kbd>/</kbd></td><td>Filter of the page</td></tr>
          <tr><td><kbd>?</kbd></td><td>This help</td></tr>
        </tbody>
      </table>
      <div class="row"><button onClick={close}>Close</button></div>
    </dialog>
  );
}

/** `g` and a letter go to a page; `/` to its filter; `?` shows all of it. */
function useKeyboard(help: () => void): void {
  useEffect(() => {
    let afterG = false;
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      if (document.querySelector("dialog[open]")) return;
      const found = afterG && PAGES.find(([, , letter]) => letter === event.key);
      afterG = !afterG && event.key === "g";
      if (found) go([found[0]]);
      else if (event.key === "?") help();
      else if (event.key === "/") {
        const field = document.querySelector<HTMLElement>("main [data-filter]");
        if (!field) return;
        event.preventDefault();
        field.focus();
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}

function Frame({ role, leave }: { role: Role.Name; leave: () => void }) {
  const [isHelp, setHelp] = useState(false);
  useKeyboard(() => setHelp(true));
  const { path } = usePlace();
  const page = path[0] ?? "overview";
  const status = useLive<Status>("status", 3).data;
  useEffect(() => {
    document.querySelector("main")?.scrollTo(0, 0);
    window.scrollTo(0, 0);
    // On a phone the pages stand in a row that is longer than the screen.
    document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [path.join("/")]);
  return (
    <Role.Context.Provider value={role}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main h1")?.focus(); }}>Skip to the page</a>
      <div class="frame">
        <header class="side">
          <a class="brand" href={link(["overview"])}><img src="icon.svg" alt="" />Thalweg</a>
          <nav class="nav" aria-label="Pages">
            {PAGES.map(([path, title]) => <a key={path} href={link([path])} aria-current={page === path ? "page" : undefined}>{title}</a>)}
          </nav>
          <div class="foot">
            <span class="version">{status ? `${status.version} · ${status.state}` : ""}{role === "read" ? " · read only" : ""}</span>
            <button class="plain" onClick={turnTheme}>Light or dark</button>
            <button class="plain" onClick={() => setHelp(true)}>Keyboard</button>
            <button class="plain" onClick={leave}>Log out</button>
          </div>
        </header>
        <div>
          <Lost />
          <main id="main"><Page /></main>
        </div>
      </div>
      {isHelp && <Help close={() => setHelp(false)} />}
    </Role.Context.Provider>
  );
}

function Login({ enter }: { enter: () => Promise<void> }) {
  const [token, setToken] = useState("");
  const [busy, error, start] = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    start(async () => {
      await ask("session", { method: "POST", json: { token } });
      await enter();
    });
  };
  return (
    <main class="login">
      <h1>Thalweg</h1>
      <p class="dim">Log in with the admin token, or with the read token to look only.</p>
      <form onSubmit={submit}>
        <label>Token<input type="password" name="token" autocomplete="current-password" autofocus required value={token} onInput={(event) => setToken(event.currentTarget.value)} /></label>
        {error !== undefined && <Failure error={error} />}
        <button class="main" disabled={busy}>{busy ? "Logging in…" : "Log in"}</button>
      </form>
      <p class="dim">It is <code>admin.token</code> of the configuration, or in the file <code>admin.token</code> of the state directory; <code>thalweg run</code> says where.</p>
    </main>
  );
}

/** `#token=…` in a link logs in; it does not stay in the address or the history. */
async function tokenOfLink(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", link(["overview"]));
  await ask("session", { method: "POST", json: { token: decodeURIComponent(token) } });
}

function App() {
  const [role, setRole] = useState<Role.Name | "nobody" | undefined>();
  const [error, setError] = useState<unknown>();
  const enter = async () => {
    try {
      setRole((await ask<{ role: Role.Name }>("session")).data.role);
    } catch (problem) {
      if (!(problem instanceof ApiError) || problem.isLost) throw problem;
      setRole("nobody");
    }
  };
  useEffect(() => {
    whenSessionIsOver(() => {
      forget();
      setRole("nobody");
    });
    tokenOfLink().catch(() => {}).then(enter).catch(setError);
    here();
  }, []);
  const leave = () => void ask("session", { method: "DELETE" }).catch(() => {}).finally(() => {
    forget();
    setRole("nobody");
  });
  if (role === undefined) return error === undefined ? null : <main class="login"><h1>Thalweg</h1><Failure error={error} /><button onClick={() => location.reload()}>Try again</button></main>;
  return role === "nobody" ? <Login enter={enter} /> : <Frame role={role} leave={leave} />;
}

applyTheme();
const place = document.getElementById("app");
if (place) render(<App />, place);
