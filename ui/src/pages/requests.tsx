// Decision records: which exchanges there were, and the way of one of them.
import { useEffect, useRef, useState } from "preact/hooks";
import { query as text, segment, stream } from "../api";
import { bytes, micros, moment, NONE, words } from "../format";
import { useLive } from "../live";
import { Empty, Failure, Head, Note, usePages, Waiting } from "../parts/basics";
import { link, replaceQuery } from "../router";
import type { Attempt, RequestRecord, Requests } from "../types";

const FIELDS = ["route", "service", "status", "fault", "slower_than"] as const;
/** Records of a live tap that are kept on the page. */
const TAPPED = 500;

export function RequestsPage({ query }: { query: URLSearchParams }) {
  const [isTap, setTap] = useState(false);
  const asked = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]));
  const live = useLive<Requests>(isTap ? "" : `requests${text({ ...asked, limit: 200 })}`, 3);
  const tap = useTap(isTap, asked);
  const [filter, setFilter] = useState(asked);
  const records = isTap ? tap.records : (live.data?.requests ?? []);
  const [shown, turn] = usePages(records, 50);
  const submit = (event: Event) => {
    event.preventDefault();
    replaceQuery(filter);
  };
  const field = (name: (typeof FIELDS)[number], title: string, hint: string) => (
    <label>{title}<input data-filter={name === "route" ? true : undefined} placeholder={hint} value={filter[name]} onInput={(event) => setFilter({ ...filter, [name]: event.currentTarget.value })} /></label>
  );
  return (
    <>
      <Head title="Requests" about={isTap ? "as they end" : live.data && `the newest of the last ${live.data.keep} of each worker; failed and slow ones are kept longer`}>
        <button aria-pressed={isTap} onClick={() => setTap(!isTap)}>{isTap ? "Stop the tap" : "Live tap"}</button>
      </Head>
      <form class="bar" onSubmit={submit}>
        {field("route", "Route", "any")}
        {field("service", "Service", "any")}
        {field("status", "Status", "503 or 5xx")}
        {field("fault", "Fault", "connection_refused")}
        {field("slower_than", "Slower than", "500ms")}
        <button class="main">Filter</button>
        <button type="button" onClick={() => { setFilter(Object.fromEntries(FIELDS.map((name) => [name, ""]))); replaceQuery({}); }}>Clear</button>
      </form>
      {tap.error !== undefined && <Failure error={tap.error} />}
      {live.error && !isTap && <Failure error={live.error} />}
      {live.data?.keep === 0 && <Note>Nothing is remembered: <code>request_history.keep</code> is 0.</Note>}
      {!isTap && !live.data && !live.error && <p class="dim">Loading…</p>}
      {records.length === 0 && (isTap || live.data) && <Empty>{isTap ? "Waiting for requests that fit." : "No request fits. Send one, or clear the filter."}</Empty>}
      {records.length > 0 && (
        <div class="scroll">
          <table class="cards">
            <thead><tr><th>Time</th><th class="n">Status</th><th>Request</th><th>Route</th><th>Service</th><th class="n">Took</th><th class="n">Out</th><th>Fault</th></tr></thead>
            <tbody>
              {shown.map((record, index) => (
                <tr key={`${record.id}${record.began}${index}`}>
                  <td class="tight">{moment(record.began)}</td>
                  <td class={`n ${statusTone(record)}`}>{record.status ?? (record.open ? "open" : NONE)}</td>
                  <td class="mono full"><a {...(record.id ? { href: link(["requests", record.id]) } : {})}>{record.method ?? "?"} {record.host}{record.path}</a></td>
                  <td data-l="Route">{record.route ?? NONE}</td>
                  <td data-l="Service">{record.service ?? NONE}</td>
                  <td class="n" data-l="Took">{micros(record.duration_us)}</td>
                  <td class="n" data-l="Out">{bytes(record.bytes_out)}</td>
                  <td class="bad">{record.fault ? words(record.fault) : record.attempts.some((attempt) => attempt.fault) ? "retried" : record.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {turn}
    </>
  );
}

const statusTone = (record: RequestRecord) => ((record.status ?? 0) >= 500 || record.fault ? "bad" : (record.status ?? 0) >= 400 ? "warn" : "");

/** The newest exchanges as the tap tells them, newest first. They are put on the page four times a second at most. */
function useTap(isOn: boolean, asked: Record<string, string>): { records: RequestRecord[]; error: unknown } {
  const [records, setRecords] = useState<RequestRecord[]>([]);
  const [error, setError] = useState<unknown>();
  const key = JSON.stringify(asked);
  useEffect(() => {
    setError(undefined);
    if (!isOn) return;
    const stop = new AbortController();
    let heard: RequestRecord[] = [];
    const timer = window.setInterval(() => {
      if (!heard.length) return;
      const fresh = heard.reverse();
      heard = [];
      setRecords((old) => [...fresh, ...old].slice(0, TAPPED));
    }, 250);
    const { route, service, status, slower_than } = asked;
    const conditions = [status && /^[1-5]xx$/.test(status) ? `status>=${status[0]}00 and status<=${status[0]}99` : status && `status=${status}`, slower_than && `latency>=${slower_than}`];
    const path = `tap${text({ route, service, where: conditions.filter(Boolean).join(" and ") })}`;
    stream(path, stop.signal, ({ event, data }) => {
      if (event === "exchange" && heard.length < TAPPED) heard.push(JSON.parse(data) as RequestRecord);
    }).catch((problem: unknown) => stop.signal.aborted || setError(problem));
    return () => {
      stop.abort();
      window.clearInterval(timer);
    };
  }, [isOn, key]);
  return { records, error };
}

export function RequestPage({ id }: { id: string }) {
  const live = useLive<Requests>(`requests/${segment(id)}`, 3600);
  if (!live.data) return <><Head title="Request" about={<span class="mono">{id}</span>} /><Waiting live={live} /><p><a href={link(["requests"])}>All requests</a></p></>;
  return <>{live.data.requests.map((record, index) => <One key={index} record={record} />)}</>;
}

function One({ record }: { record: RequestRecord }) {
  return (
    <>
      <Head title={`${record.method ?? "?"} ${record.host ?? ""}${record.path ?? ""}`} about={<span class={statusTone(record)}>{record.status ?? "no answer"} after {micros(record.duration_us)}</span>}>
        <Curl record={record} />
        <a href={link(["explain"], { method: record.method, url: urlOf(record), from: record.client_ip })}>Explain</a>
      </Head>
      <Note kind={statusTone(record) === "bad" ? "bad" : statusTone(record) === "warn" ? "warn" : "ok"}><div id="why">{why(record).map((sentence) => <p key={sentence}>{sentence}</p>)}</div></Note>
      <h2>Timeline</h2>
      <Timeline record={record} />
      <h2>What was decided</h2>
      <dl class="facts">
        <dt>Began</dt><dd>{record.began}</dd>
        <dt>Client</dt><dd class="mono">{record.client_ip}{record.client_port ? `:${record.client_port}` : ""}{record.user && ` as ${record.user}`}</dd>
        <dt>Listener</dt><dd>{record.listener ?? NONE}</dd>
        <dt>Route</dt><dd>{record.route ? <a href={link(["routes", record.route])}>{record.route}</a> : "none matched"}</dd>
        <dt>Filters</dt><dd>{record.filters?.length ? record.filters.map((filter) => `${filter.name}${filter.acted ? "" : " (did nothing)"}`).join(" → ") : "none"}</dd>
        <dt>Service</dt><dd>{record.service ? <a href={link(["services", record.service])}>{record.service}</a> : "none: the proxy answered itself"}</dd>
        <dt>Received, sent</dt><dd>{bytes(record.bytes_in)}, {bytes(record.bytes_out)}</dd>
        {record.reason && <><dt>Reason</dt><dd>{record.reason}</dd></>}
        <dt>Id</dt><dd class="mono">{record.id}</dd>
      </dl>
      {(["request_headers", "response_headers"] as const).map((name) => record[name] && <pre key={name}>{record[name]?.map((pair) => pair.join(": ")).join("\n")}</pre>)}
    </>
  );
}

const SIDES: Record<string, string> = { upstream: "The endpoint is to blame", downstream: "The client is to blame", proxy: "The proxy itself refused" };

/** What happened, in sentences. */
export function why(record: RequestRecord): string[] {
  const sentences: string[] = [];
  if (record.fault) {
    const side = SIDES[record.fault_side ?? ""] ?? "It failed";
    sentences.push(`${side}: ${words(record.fault)}${record.fault_detail ? `, ${record.fault_detail}` : ""}.`);
  }
  const failed = record.attempts.filter((attempt) => attempt.fault);
  for (const attempt of failed) {
    const at = attempt.failed_us === undefined ? "" : ` after ${micros(attempt.failed_us - attempt.began_us)}`;
    sentences.push(`The attempt at ${attempt.endpoint ?? "an endpoint"} failed${at}: ${words(attempt.fault ?? "")}${attempt.fault_detail ? `, ${attempt.fault_detail}` : ""}.`);
  }
  const answered = record.attempts.find((attempt) => attempt.answered);
  if (answered && failed.length) sentences.push(`${answered.endpoint} answered in its place.`);
  if (!record.route && record.status === 404) sentences.push("No route matches it. Explain says why each does not.");
  else if (record.reason) sentences.push(`A filter: ${record.reason}.`);
  else if (!record.fault && (record.status ?? 0) >= 500) sentences.push(answered ? `The endpoint ${answered.endpoint} itself answered with ${record.status}.` : `The proxy answered with ${record.status}.`);
  if (record.ended) sentences.push(`It ended because it was ${record.ended}.`);
  if (!sentences.length) sentences.push(answered ? `${answered.endpoint} answered with ${record.status}.` : `The proxy itself answered with ${record.status ?? "nothing"}.`);
  if (record.kept === "slow") sentences.push("It is kept because it was slow.");
  return sentences;
}

function Timeline({ record }: { record: RequestRecord }) {
  const all = Math.max(record.duration_us, 1);
  const bar = (from: number, to: number, kind: string) => <i class={kind} style={{ left: `${Math.min(99.5, (from / all) * 100)}%`, width: `${Math.max(0, ((to - from) / all) * 100)}%` }} />;
  const end = (attempt: Attempt) => attempt.failed_us ?? (attempt.answered ? (record.ttfb_us ?? all) : all);
  return (
    <div class="phases">
      {record.wait_us !== undefined && record.wait_us > 0 && <><span>queue</span><span class="line">{bar(0, record.wait_us, "wait")}</span><span>{micros(record.wait_us)}</span></>}
      {record.attempts.map((attempt, index) => (
        <>
          <span title={attempt.endpoint}>{index + 1}. <span class="mono">{attempt.endpoint ?? "not sent"}</span></span>
          <span class="line" title={`${attempt.reused ? "on a connection that was open" : `connect ${micros(attempt.connect_us)}`}${attempt.hedge ? ", hedge" : ""}`}>
            {bar(attempt.began_us, end(attempt), attempt.fault ? "fail" : "")}
            {!attempt.reused && bar(attempt.began_us, attempt.began_us + attempt.connect_us, "wait")}
          </span>
          <span>{micros(end(attempt) - attempt.began_us)}</span>
        </>
      ))}
      {record.ttfb_us !== undefined && <><span>response body</span><span class="line">{bar(record.ttfb_us, all, "body")}</span><span>{micros(all - record.ttfb_us)}</span></>}
      <span>in all</span><span class="line">{bar(0, all, "body")}</span><span>{micros(all)}</span>
    </div>
  );
}

const urlOf = (record: RequestRecord) => `http://${record.host ?? "localhost"}${record.path ?? "/"}${record.query ? `?${record.query}` : ""}`;
const quote = (value: string) => `'${value.replaceAll("'", `'\\''`)}'`;

function Curl({ record }: { record: RequestRecord }) {
  const [done, setDone] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const headers = record.request_headers?.flatMap(([name, value]) => ["-H", quote(`${name}: ${value}`)]) ?? [];
  const command = ["curl", "-i", ...(record.method && record.method !== "GET" ? ["-X", record.method] : []), ...headers, quote(urlOf(record))].join(" ");
  const copy = () => {
    const copied = navigator.clipboard?.writeText(command);
    if (copied) copied.then(() => setDone(true)).catch(() => field.current?.select());
    else field.current?.select();
  };
  return <><input ref={field} readonly class="mono" aria-label="curl command" value={command} /><button onClick={copy}>{done ? "Copied" : "Copy as curl"}</button></>;
}

