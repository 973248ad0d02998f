// Small parts that every page is made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import type { Live } from "../live";

/** The title of a page, and what stands at its end. */
export function Head({ title, about, children }: { title: string; about?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Thalweg`;
  }, [title]);
  return (
    <div class="head">
      <h1 tabIndex={-1}>{title}</h1>
      {about && <span class="dim">{about}</span>}
      {children && <div class="end">{children}</div>}
    </div>
  );
}

const HOLLOW = new Set(["draining", "maintenance", "unchecked", "paused", "replaced", "removed"]);
const BAD = new Set(["down", "unhealthy", "ejected", "rolled_back", "failed", "burning", "exhausted", "expired", "failing"]);
const GOOD = new Set(["ready", "up", "ok", "running", "finished", "passed", "current"]);

/** The class of a colour for a state. */
export const tone = (state: string): "ok" | "bad" | "warn" | "dim" =>
  BAD.has(state) ? "bad" : GOOD.has(state) ? "ok" : HOLLOW.has(state) ? "dim" : "warn";

/** A state in a word and a colour, with a shape for those who see no colours. */
export function State({ state }: { state: string }) {
  const colour = tone(state);
  const shape = HOLLOW.has(state) ? "hollow" : colour === "ok" ? "ready" : "";
  return <span class={`state ${shape} ${colour === "ok" ? "" : colour}`}>{state.replaceAll("_", " ")}</span>;
}

/** What the API has in backticks is set as code. */
export function Coded({ text }: { text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

/** A sentence that stands out. */
export function Note({ kind, children }: { kind?: "bad" | "warn" | "ok"; children: ComponentChildren }) {
  return <div class={`note ${kind ?? ""}`} role={kind === "bad" ? "alert" : "status"}>{children}</div>;
}

/** An error of the API with what to do about it. */
export function Failure({ error }: { error: unknown }) {
  if (!(error instanceof ApiError)) return <Note kind="bad">{String(error)}</Note>;
  if (error.isLost) return <Note kind="warn">The proxy does not answer. This page asks again by itself.</Note>;
  return (
    <Note kind="bad">
      <Coded text={error.problem.detail} />
      {error.problem.help && <div class="dim">help: <Coded text={error.problem.help} /></div>}
    </Note>
  );
}

/** What is shown until there is something: nothing yet, or why not. */
export function Waiting({ live }: { live: Live<unknown> }) {
  return live.error ? <Failure error={live.error} /> : <p class="dim">Loading…</p>;
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="dim">{children}</p>;
}

/** Runs something that takes a while: whether it is under way, and what went wrong. */
export function useAction(): [boolean, unknown, (work: () => Promise<void>) => void] {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const start = (work: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    work().catch(setError).finally(() => setBusy(false));
  };
  return [busy, error, start];
}

/** Asks before something is done that others notice. */
export function Confirm({ title, children, verb, danger, run, close }: {
  title: string;
  children?: ComponentChildren;
  verb: string;
  danger?: boolean;
  run: () => Promise<unknown>;
  close: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [busy, error, start] = useAction();
  useEffect(() => dialog.current?.showModal(), []);
  const act = (event: Event) => {
    event.preventDefault();
    start(async () => {
      await run();
      close();
    });
  };
  return (
    <dialog ref={dialog} aria-label={title} onClose={close}>
      <form onSubmit={act}>
        <h1>{title}</h1>
        {children}
        {error !== undefined && <Failure error={error} />}
        <div class="row">
          <button type="button" onClick={close}>Cancel</button>
          <button type="submit" class={danger ? "main danger-main" : "main"} disabled={busy}>{busy ? "Working…" : verb}</button>
        </div>
      </form>
    </dialog>
  );
}

/** Long lists in parts, so that no part takes long to draw. */
export function usePages<T>(all: T[], size: number): [T[], preact.JSX.Element | null] {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(all.length / size));
  const now = Math.min(page, pages - 1);
  const turn = (
    <div class="pages">
      <button disabled={now === 0} onClick={() => setPage(now - 1)}>Previous</button>
      <span class="dim">{now * size + 1}–{Math.min(all.length, (now + 1) * size)} of {all.length}</span>
      <button disabled={now === pages - 1} onClick={() => setPage(now + 1)}>Next</button>
    </div>
  );
  return [all.slice(now * size, (now + 1) * size), pages > 1 ? turn : null];
}
