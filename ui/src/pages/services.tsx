// Services and their endpoints, with what an operator does to them.
import { useRef, useState } from "preact/hooks";
import { ask, segment } from "../api";
import { ago, count, millis, percent, short } from "../format";
import { refresh, useLive } from "../live";
import { Coded, Confirm, Empty, Head, Note, State, usePages, Waiting } from "../parts/basics";
import { useMayWrite } from "../role";
import { link } from "../router";
import type { Endpoint, Service, Services, Source, Sources } from "../types";
import { History } from "./overview";
import { useSourcesOf } from "./sources";

/** Requests per second of each service, from two looks at its counters. */
export function useRates(live: { data?: Services; at?: number }): ReadonlyMap<string, number> {
  const seen = useRef<{ at: number; totals: Map<string, number>; rates: ReadonlyMap<string, number> } | undefined>(undefined);
  const old = seen.current;
  if (!live.data || live.at === undefined) return old?.rates ?? NO_RATES;
  if (old && live.at <= old.at) return old.rates;
  const totals = new Map<string, number>();
  for (const service of live.data.services) {
    totals.set(service.name, sum(service, (endpoint) => endpoint.requests_total));
    for (const endpoint of service.endpoints) totals.set(`${service.name}\n${endpoint.id}`, endpoint.requests_total);
  }
  const time = old ? (live.at - old.at) / 1000 : 0;
  const rates = old ? new Map([...totals].map(([name, total]) => [name, Math.max(0, total - (old.totals.get(name) ?? total)) / time])) : NO_RATES;
  seen.current = { at: live.at, totals, rates };
  return rates;
}

const NO_RATES: ReadonlyMap<string, number> = new Map();

const sum = (service: Service, of: (endpoint: Endpoint) => number) => service.endpoints.reduce((all, endpoint) => all + of(endpoint), 0);

export function ServicesPage() {
  const live = useLive<Services>("services", 2);
  const rates = useRates(live);
  const sources = new Map(useLive<Sources>("sources", 5).data?.sources.flatMap((source) => source.services.map((name) => [name, source])));
  const [filter, setFilter] = useState("");
  const found = (live.data?.services ?? []).filter((service) => service.name.includes(filter));
  const [shown, turn] = usePages(found, 40);
  if (!live.data) return <><Head title="Services" /><Waiting live={live} /></>;
  return (
    <>
      <Head title="Services" about={`${live.data.services.length}`}>
        <input type="search" data-filter placeholder="Filter" aria-label="Filter services" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </Head>
      {live.data.services.length === 0 && <Empty>There is no service yet. <a href={link(["configuration"])}>Write one under “services:”</a>.</Empty>}
      <div class="scroll">
        <table class="cards">
          <thead><tr><th>Service</th><th>State</th><th class="n">Endpoints</th><th class="n">Requests/s</th><th class="n">In flight</th><th class="n">Queued</th><th class="n">Failed</th><th>Balance</th><th>Endpoints from</th></tr></thead>
          <tbody>
            {shown.map((service) => {
              const total = sum(service, (endpoint) => endpoint.requests_total);
              const failed = sum(service, (endpoint) => endpoint.failures_total);
              return (
                <tr key={service.name}>
                  <td class="full"><a href={link(["services", service.name])}>{service.name}</a></td>
                  <td><State state={service.state} /></td>
                  <td class="n" data-l="Endpoints">{service.endpoints.filter((endpoint) => endpoint.state === "ready" || endpoint.state === "slow_start").length} of {service.endpoints.length}</td>
                  <td class="n" data-l="Requests/s">{short(rates.get(service.name))}</td>
                  <td class="n" data-l="In flight">{count(service.requests_active)}</td>
                  <td class="n" data-l="Queued">{count(service.queued)}</td>
                  <td class="n" data-l="Failed">{total ? percent(failed / total) : "–"}</td>
                  <td data-l="Balance">{service.balance}</td>
                  <td data-l="From"><From service={service.name} source={sources.get(service.name)} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {turn}
    </>
  );
}

/** Where the endpoints of a service come from, in a word or two. */
function From({ service, source }: { service: string; source: Source | undefined }) {
  if (!source) return <span class="dim">configuration</span>;
  return <><a href={link(["sources"], { service })}>{source.kind}</a>{source.state !== "current" && <> <State state={source.state} /></>}</>;
}

export function ServicePage({ name }: { name: string }) {
  const live = useLive<Services>("services", 2);
  const rates = useRates(live);
  const service = live.data?.services.find((known) => known.name === name);
  const sources = useSourcesOf(name);
  const [adds, setAdds] = useState(false);
  const mayWrite = useMayWrite();
  if (!live.data) return <><Head title={name} /><Waiting live={live} /></>;
  if (!service) return <><Head title={name} /><Note kind="warn">There is no service “{name}”. <a href={link(["services"])}>All services</a></Note></>;
  return (
    <>
      <Head title={name} about={<><State state={service.state} /> · {service.balance} · {count(service.requests_active)} in flight{service.queued ? ` · ${service.queued} queued` : ""}</>}>
        <a href={link(["requests"], { service: name })}>Requests</a>
        {mayWrite && <button onClick={() => setAdds(true)}>Add an endpoint</button>}
      </Head>
      {service.insecure_skip_verify && <Note kind="warn">Certificates of its endpoints are not verified.</Note>}
      {service.state === "down" && <Note kind="bad">No endpoint can be used: requests are answered 503 until one recovers. The causes are below.</Note>}
      {sources?.map((source) => <FromSource key={source.kind + source.place + source.query} {...{ source, service }} />)}
      <div class="scroll">
        <table class="cards">
          <thead><tr><th>Endpoint</th><th>State</th><th class="n">Weight</th><th class="n">Requests/s</th><th class="n">In flight</th><th class="n">Latency</th><th class="n">Requests</th><th class="n">Failed</th>{mayWrite && <th><span class="unseen">Actions</span></th>}</tr></thead>
          <tbody>{service.endpoints.map((endpoint) => <EndpointRow key={endpoint.id} {...{ endpoint, service: name, mayWrite }} rate={rates.get(`${name}\n${endpoint.id}`)} />)}</tbody>
        </table>
      </div>
      {service.endpoints.length === 0 && <Empty>It has no endpoint now. Add one here, or wait for its source.</Empty>}
      <h2>Last 30 minutes</h2>
      <History kind="service" name={name} />
      {adds && <AddEndpoint service={name} close={() => setAdds(false)} />}
    </>
  );
}

/** What the source of a service says, and why not where it fails. */
function FromSource({ source, service }: { source: Source; service: Service }) {
  const found = service.endpoints.filter((endpoint) => endpoint.source === "discovered").length;
  const others = service.endpoints.length - found;
  const words = (
    <>
      {count(found)} of {count(service.endpoints.length)} {service.endpoints.length === 1 ? "endpoint comes" : "endpoints come"} from the <a href={link(["sources"], { service: service.name })}>source {source.kind}</a> <span class="mono">{source.query}</span> at <span class="mono">{source.place}</span>
      {others > 0 && `; ${others === 1 ? "the other is" : "the others are"} written in the configuration or added here`}.
    </>
  );
  if (source.state === "current") return <p class="dim">{words}</p>;
  return <Note kind={source.state === "failing" && service.endpoints.length === 0 ? "bad" : "warn"}><State state={source.state} /> · {words}{source.error && <div><Coded text={source.error} /></div>}</Note>;
}

type Change = "draining" | "maintenance" | "ready" | "weight" | "removed";

function EndpointRow({ endpoint, service, rate, mayWrite }: { endpoint: Endpoint; service: string; rate: number | undefined; mayWrite: boolean }) {
  const [change, setChange] = useState<Change>();
  const isOut = endpoint.state === "draining" || endpoint.state === "maintenance";
  return (
    <tr>
      <td class="full"><span class="mono">{endpoint.url}</span>{endpoint.tier > 0 && <span class="dim"> tier {endpoint.tier}</span>}{endpoint.origin && <span class="cause">{endpoint.origin}</span>}{endpoint.cause && <span class="cause warn">{endpoint.cause}</span>}</td>
      <td class="tight"><State state={endpoint.state} /><span class="cause" title={endpoint.since}>{endpoint.state === "draining" && endpoint.requests_active > 0 ? `${endpoint.requests_active} left` : ago(endpoint.since)}</span></td>
      <td class="n" data-l="Weight">{endpoint.weight}</td>
      <td class="n" data-l="Requests/s">{short(rate)}</td>
      <td class="n" data-l="In flight">{count(endpoint.requests_active)}</td>
      <td class="n" data-l="Latency">{millis(endpoint.latency_ms)}</td>
      <td class="n" data-l="Requests">{count(endpoint.requests_total)}</td>
      <td class="n" data-l="Failed">{count(endpoint.failures_total)}</td>
      {mayWrite && (
        <td class="full">
          <div class="row">
            {isOut ? <button onClick={() => setChange("ready")}>Use again</button> : <button onClick={() => setChange("draining")}>Drain</button>}
            {endpoint.state !== "maintenance" && <button onClick={() => setChange("maintenance")}>Maintenance</button>}
            <button onClick={() => setChange("weight")}>Weight</button>
            <button class="danger" onClick={() => setChange("removed")}>Remove</button>
          </div>
          {change && <ChangeEndpoint {...{ endpoint, service, change }} close={() => setChange(undefined)} />}
        </td>
      )}
    </tr>
  );
}

const TITLES: Record<Change, string> = { draining: "Drain this endpoint?", maintenance: "Set this endpoint aside?", ready: "Use this endpoint again?", weight: "Change the weight", removed: "Remove this endpoint?" };
const VERBS: Record<Change, string> = { draining: "Drain", maintenance: "Set aside", ready: "Use again", weight: "Change", removed: "Remove" };

const ENDS: Record<Endpoint["source"], string> = {
  file: "It stays away, over reloads too, until it is added again; the file still has it.",
  discovered: "It stays away, although its source still has it, until it is added again.",
  runtime: "To have it back, add it again.",
};

function ChangeEndpoint({ endpoint, service, change, close }: { endpoint: Endpoint; service: string; change: Change; close: () => void }) {
  const [weight, setWeight] = useState(endpoint.weight);
  const run = async () => {
    const path = `services/${segment(service)}/endpoints/${segment(endpoint.id)}`;
    if (change === "removed") await ask(`${path}?drain=30s`, { method: "DELETE" });
    else await ask(path, { method: "PATCH", json: change === "weight" ? { weight } : { state: change } });
    refresh("services");
  };
  return (
    <Confirm title={TITLES[change]} verb={VERBS[change]} danger={change === "removed"} {...{ run, close }}>
      <p class="mono">{endpoint.url}</p>
      {change === "draining" && <p>It gets nothing new; {count(endpoint.requests_active)} under way may finish. The table shows how many are left.</p>}
      {change === "maintenance" && <p>It gets nothing new, whatever health checks say, until it is used again.</p>}
      {change === "ready" && <p>It is in rotation again; health decides the rest.</p>}
      {change === "removed" && <p>It gets nothing new. What is under way may finish within 30 s, then it is cut. {ENDS[endpoint.source]}</p>}
      {change === "weight" && <label>Weight, 0 to 1000<input type="number" min={0} max={1000} required value={weight} onInput={(event) => setWeight(event.currentTarget.valueAsNumber)} /></label>}
    </Confirm>
  );
}

function AddEndpoint({ service, close }: { service: string; close: () => void }) {
  const [url, setUrl] = useState("");
  const [weight, setWeight] = useState(1);
  const run = async () => {
    await ask(`services/${segment(service)}/endpoints`, { method: "POST", json: { url, weight } });
    refresh("services");
  };
  return (
    <Confirm title={`Add an endpoint to ${service}`} verb="Add" {...{ run, close }}>
      <label>URL<input required placeholder="http://10.0.0.7:8080" value={url} onInput={(event) => setUrl(event.currentTarget.value)} /></label>
      <label>Weight, 0 to 1000<input type="number" min={0} max={1000} required value={weight} onInput={(event) => setWeight(event.currentTarget.valueAsNumber)} /></label>
    </Confirm>
  );
}
