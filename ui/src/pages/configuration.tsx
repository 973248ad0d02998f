// The configuration: edited with the mistakes that `check` would name, compared, applied with a watch, brought back.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask, query as text } from "../api";
import { bytes, moment, words } from "../format";
import { refresh, useLive } from "../live";
import { Coded, Confirm, Failure, Head, Note, State, useAction, Waiting } from "../parts/basics";
import { Editor } from "../parts/editor";
import { useMayWrite } from "../role";
import { link } from "../router";
import type { Schema } from "../schema";
import type { ConfigDocument, ConfigOutcome, HistoryEntry, Mistake } from "../types";

/** Pause in typing after which a text is checked, in milliseconds. */
const PAUSE = 700;

export function ConfigurationPage({ part }: { part: string }) {
  return (
    <>
      <Head title="Configuration">
        <a class="button" href={link(["configuration"])} aria-current={part === "edit" ? "page" : undefined}>Text</a>
        <a class="button" href={link(["configuration", "plan"])} aria-current={part === "plan" ? "page" : undefined}>File and drift</a>
        <a class="button" href={link(["configuration", "history"])} aria-current={part === "history" ? "page" : undefined}>History</a>
      </Head>
      {part === "history" ? <HistoryPart /> : part === "plan" ? <PlanPart /> : <EditPart />}
    </>
  );
}

const TYPES = { yaml: "application/yaml", json: "application/json", toml: "application/toml" };

function EditPart() {
  const [document, setDocument] = useState<ConfigDocument>();
  const [draft, setDraft] = useState("");
  const [schema, setSchema] = useState<Schema>();
  const [error, setError] = useState<unknown>();
  const [outcome, setOutcome] = useState<ConfigOutcome>();
  const [applies, setApplies] = useState(false);
  const [applied, setApplied] = useState<ConfigOutcome>();
  const mayWrite = useMayWrite();
  const turn = useRef(0);
  const load = async () => {
    const { data } = await ask<ConfigDocument>("config");
    setDocument(data);
    setDraft(data.text);
    setOutcome(undefined);
  };
  useEffect(() => {
    load().catch(setError);
    ask<Schema>("config/schema").then(({ data }) => setSchema(data)).catch(() => {});
  }, []);
  const isChanged = document !== undefined && draft !== document.text;
  const put = (parameters: Record<string, string | boolean | undefined>) =>
    ask<ConfigOutcome>(`config${text(parameters)}`, { method: "PUT", text: draft, type: TYPES[document?.format ?? "yaml"], ifMatch: `"${document?.etag}"` });
  useEffect(() => {
    setError(undefined);
    setOutcome(undefined);
    if (!isChanged || !mayWrite) return;
    const own = ++turn.current;
    const timer = window.setTimeout(() => {
      put({ dry_run: true })
        .then(({ data }) => own === turn.current && setOutcome(data))
        .catch((problem: unknown) => own === turn.current && setError(problem));
    }, PAUSE);
    return () => window.clearTimeout(timer);
  }, [draft, document?.etag]);
  const mistakes = mistakesOf(error);
  if (!document) return error === undefined ? <p class="dim">Loading…</p> : <Failure error={error} />;
  const isStale = error instanceof ApiError && error.status === 412;
  return (
    <>
      <p class="dim"><span class="mono">{document.path ?? "without a file"}</span> · {document.path && !document.writable && "The file cannot be written: what is applied runs until the next start. "}Secrets are shown as <code>&lt;redacted&gt;</code> and stay as they are. <kbd>Ctrl</kbd> <kbd>Space</kbd> completes.</p>
      <Editor text={draft} change={setDraft} mistakes={mistakes} schema={schema} readOnly={!mayWrite} />
      <div class="bar" style={{ marginTop: "10px" }}>
        <button class="main" disabled={!outcome || !isChanged} onClick={() => setApplies(true)}>Apply…</button>
        <button disabled={!isChanged} onClick={() => setDraft(document.text)}>Discard</button>
        <span class="dim" role="status">{!isChanged ? "No change" : mistakes.length ? `${mistakes.length} ${mistakes.length === 1 ? "mistake" : "mistakes"}` : outcome ? "Checked: it can be applied" : error === undefined ? "Checking…" : "Not checked"}</span>
      </div>
      {mistakes.length > 0 && (
        <ul class="mistakes" role="alert">
          {mistakes.map((mistake) => <li key={`${mistake.line}:${mistake.column}${mistake.message}`}><Note kind="bad"><strong>Line {mistake.line}, column {mistake.column}:</strong> <Coded text={mistake.message} />{mistake.help && <div class="dim">help: <Coded text={mistake.help} /></div>}</Note></li>)}
        </ul>
      )}
      {error !== undefined && mistakes.length === 0 && <Failure error={error} />}
      {isStale && <button onClick={() => void load().catch(setError)}>Load the configuration that runs now (the text above is lost)</button>}
      {outcome && <Outcome outcome={outcome} title="What would change" />}
      {applied && <Applied number={applied.number} />}
      {applies && <Apply close={() => setApplies(false)} canWrite={document.writable} run={async (parameters) => { setApplied((await put(parameters)).data); await load(); refresh("history", "status", "routes", "services"); }} />}
    </>
  );
}

function mistakesOf(error: unknown): Mistake[] {
  if (!(error instanceof ApiError)) return [];
  const { mistakes, line, column, detail, help } = error.problem;
  if (mistakes?.length) return mistakes;
  return line === undefined ? [] : [{ line, column: column ?? 1, message: detail, ...(help === undefined ? {} : { help }) }];
}

function Apply({ run, close, canWrite }: { run: (parameters: Record<string, string | boolean | undefined>) => Promise<void>; close: () => void; canWrite: boolean }) {
  const [watch, setWatch] = useState("60s");
  const [ephemeral, setEphemeral] = useState(!canWrite);
  return (
    <Confirm title="Apply this configuration?" verb="Apply" close={close} run={() => run({ watch: watch || undefined, ephemeral })}>
      <label>Watch it, and take it back when a route gets worse<select value={watch} onChange={(event) => setWatch(event.currentTarget.value)}>{[["", "no"], ["30s", "for 30 seconds"], ["60s", "for a minute"], ["10m", "for ten minutes"], ["1h", "for an hour"]].map(([value, title]) => <option key={value} value={value}>{title}</option>)}</select></label>
      <p><label class="row"><input type="checkbox" checked={ephemeral} disabled={!canWrite} onChange={(event) => setEphemeral(event.currentTarget.checked)} />Leave the file as it is: a restart brings it back</label></p>
    </Confirm>
  );
}

/** How what was applied gets on. */
function Applied({ number }: { number: number | undefined }) {
  const entries = useLive<{ entries: HistoryEntry[] }>("history", 2).data?.entries;
  const entry = entries?.find((one) => one.number === number);
  if (!entry) return <Note kind="ok">Applied.</Note>;
  const watch = entry.watch;
  if (!watch) return <Note kind="ok">Applied as number {entry.number}.</Note>;
  const left = Math.max(0, Math.round((Date.parse(watch.until) - Date.now()) / 1000));
  return <Note kind={watch.state === "watching" || watch.state === "passed" ? "ok" : "bad"}>Applied as number {entry.number}. Watch: {words(watch.state)}{watch.state === "watching" && `, ${left} s left; it is taken back when a route gets worse`}{watch.verdict && ` – ${watch.verdict}`}</Note>;
}

function Outcome({ outcome, title }: { outcome: ConfigOutcome; title: string }) {
  const nothing = !outcome.changes.length && !outcome.listeners.length;
  return (
    <section>
      <h2>{title}</h2>
      {nothing && <p class="dim">Nothing.</p>}
      {outcome.listeners.map((one) => <p key={one.name + one.address}>Listener {one.name} {one.opens ? "opens" : "closes"} {one.address}{one.connections > 0 && `, with ${one.connections} connections`}</p>)}
      {outcome.changes.length > 0 && (
        <div class="scroll">
          <table>
            <thead><tr><th>What</th><th>Happens</th><th>Field</th><th>Before</th><th>After</th></tr></thead>
            <tbody>
              {outcome.changes.flatMap((change) => (change.fields.length ? change.fields : [undefined]).map((field, index) => (
                <tr key={change.kind + change.name + (field?.field ?? "")}>
                  <td>{index === 0 && <>{change.kind} <strong>{change.name}</strong>{change.origin && <span class="cause">{change.origin}</span>}</>}</td>
                  <td>{index === 0 && <span class={change.action === "removed" ? "bad" : change.action === "added" ? "ok" : ""}>{change.action}</span>}</td>
                  <td class="mono">{field?.field}</td>
                  <td class="mono">{field?.before ?? (field?.hidden ? "not shown" : "")}</td>
                  <td class="mono">{field?.after ?? (field?.hidden ? "not shown" : "")}</td>
                </tr>
              )))}
            </tbody>
          </table>
        </div>
      )}
      {outcome.waits_for_restart.length > 0 && <Note kind="warn">Waits for a restart: {outcome.waits_for_restart.join(", ")}</Note>}
      {outcome.warnings.map((line) => <Note key={line} kind="warn">{line}</Note>)}
      {outcome.notes.map((line) => <p key={line}>{line}</p>)}
      {outcome.drift.length > 0 && <><h2>Changed while it runs</h2><ul>{outcome.drift.map((one) => <li key={one.name + one.change}>{one.kind} {one.name} <span class="mono">{one.endpoint}</span>: {one.change}{one.void && " (has no effect)"}</li>)}</ul></>}
    </section>
  );
}

function PlanPart() {
  const live = useLive<ConfigOutcome>("plan", 15);
  const [asks, setAsks] = useState(false);
  const mayWrite = useMayWrite();
  if (!live.data) return <Waiting live={live} />;
  return (
    <>
      <Outcome outcome={live.data} title="What a reload of the file would change" />
      {mayWrite && <p><button onClick={() => setAsks(true)}>Reload the file…</button></p>}
      {asks && <Confirm title="Reload the file?" verb="Reload" close={() => setAsks(false)} run={async () => { await ask("reload?watch=60s", { method: "POST" }); refresh("plan", "history"); }}><p>It is watched for a minute and taken back when a route gets worse.</p></Confirm>}
    </>
  );
}

function HistoryPart() {
  const live = useLive<{ entries: HistoryEntry[] }>("history", 5);
  const [to, setTo] = useState<number>();
  const [busy, error, start] = useAction();
  const mayWrite = useMayWrite();
  if (!live.data) return <Waiting live={live} />;
  const back = (number: number | undefined) => start(async () => {
    await ask("rollback", { method: "POST", json: number === undefined ? {} : { to: number } });
    refresh("history", "routes", "services", "status");
  });
  return (
    <>
      {error !== undefined && <Failure error={error} />}
      {busy && <Note>Bringing it back…</Note>}
      <div class="scroll">
        <table>
          <thead><tr><th class="n">Number</th><th>Took over</th><th>By</th><th>State</th><th>Watch</th><th class="n">Size</th>{mayWrite && <th><span class="unseen">Actions</span></th>}</tr></thead>
          <tbody>
            {live.data.entries.map((entry, index) => (
              <tr key={entry.number}>
                <td class="n">{entry.number}</td>
                <td class="tight">{moment(entry.at)}</td>
                <td>{words(entry.origin)}, {entry.by.via === "token" ? entry.by.peer : entry.by.via}{entry.ephemeral && <span class="dim"> not in the file</span>}</td>
                <td><State state={entry.state} /></td>
                <td>{entry.watch && <>{words(entry.watch.state)}<span class="cause">{entry.watch.verdict}</span></>}</td>
                <td class="n">{bytes(entry.bytes)}</td>
                {mayWrite && <td><div class="row">{index > 0 && <button onClick={() => setTo(entry.number)}>Bring back</button>}</div></td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {to !== undefined && <Confirm title={`Bring number ${to} back?`} verb="Bring back" close={() => setTo(undefined)} run={async () => back(to)}><p>It takes over at once, and the file with it where it can be written.</p></Confirm>}
    </>
  );
}
