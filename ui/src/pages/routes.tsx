// Routes: what they match, where they lead, their shares, canaries and maintenance.
import { useState } from "preact/hooks";
import { ask, segment } from "../api";
import { count, millis, percent, seconds, words } from "../format";
import { refresh, useLive } from "../live";
import { Confirm, Empty, Head, Note, State, usePages, Waiting } from "../parts/basics";
import { useMayWrite } from "../role";
import { link } from "../router";
import type { Canary, Route, Routes } from "../types";
import { History } from "./overview";

export function RoutesPage() {
  const live = useLive<Routes>("routes", 5);
  const [filter, setFilter] = useState("");
  const text = filter.toLowerCase();
  const found = (live.data?.routes ?? []).filter((route) => `${route.name} ${route.matches} ${route.origin ?? ""}`.toLowerCase().includes(text));
  const [shown, turn] = usePages(found, 40);
  if (!live.data) return <><Head title="Routes" /><Waiting live={live} /></>;
  return (
    <>
      <Head title="Routes" about={`${live.data.routes.length}, in the order of the configuration`}>
        <input type="search" data-filter placeholder="Filter by name, match or place" aria-label="Filter routes" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </Head>
      {live.data.routes.length === 0 && <Empty>There is no route yet: every request is answered 404. <a href={link(["configuration"])}>Write one under “routes:”</a>.</Empty>}
      <div class="scroll">
        <table class="cards">
          <thead><tr><th>Route</th><th>Matches</th><th>Leads to</th><th>Filters</th><th>Listeners</th><th>Written in</th></tr></thead>
          <tbody>
            {shown.map((route) => (
              <tr key={route.name}>
                <td><a href={link(["routes", route.name])}>{route.name}</a>{route.maintenance && <span class="cause warn">in maintenance</span>}</td>
                <td class="mono full">{route.matches}</td>
                <td data-l="Leads to"><Targets route={route} /></td>
                <td class="dim" data-l="Filters">{route.filters?.join(", ")}</td>
                <td class="dim" data-l="Listeners">{route.listeners?.join(", ") || "all"}</td>
                <td class="dim" data-l="Written in">{route.origin}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {turn}
    </>
  );
}

const total = (route: Route) => route.to.reduce((all, target) => all + target.weight, 0);

function Targets({ route }: { route: Route }) {
  const all = total(route);
  return (
    <>
      {route.sealed && <span class="mono">{route.sealed} </span>}
      {!route.sealed && route.to.length === 0 && <span class="dim">answered here</span>}
      {route.to.map((target, index) => (
        <span key={target.service}>{index > 0 && ", "}<a href={link(["services", target.service])}>{target.service}</a>{route.to.length > 1 && <span class="dim"> {percent(target.weight / (all || 1))}</span>}</span>
      ))}
    </>
  );
}

export function RoutePage({ name }: { name: string }) {
  const live = useLive<Routes>("routes", 3);
  const route = live.data?.routes.find((known) => known.name === name);
  if (!live.data) return <><Head title={name} /><Waiting live={live} /></>;
  if (!route) return <><Head title={name} /><Note kind="warn">There is no route “{name}”. <a href={link(["routes"])}>All routes</a></Note></>;
  return (
    <>
      <Head title={name} about={<span class="mono">{route.matches}</span>}>
        <a href={link(["requests"], { route: name })}>Requests</a>
      </Head>
      <dl class="facts">
        {route.origin && <><dt>Written in</dt><dd class="mono">{route.origin}</dd></>}
        <dt>Listeners</dt><dd>{route.listeners?.join(", ") || "every one that takes requests"}</dd>
        <dt>Filters</dt><dd>{route.filters?.join(" → ") || "none"}</dd>
        {route.sealed && <><dt>Sealed destinations</dt><dd class="mono">{route.sealed}</dd></>}
        {!route.sealed && route.to.length === 0 && <><dt>Leads to</dt><dd>nowhere: a filter answers</dd></>}
      </dl>
      {route.maintenance !== undefined && <Maintenance route={route} />}
      {route.to.length > 0 && <Weights key={JSON.stringify(route.to)} route={route} />}
      {route.canary && <CanaryPart name={name} />}
      <h2>Last 30 minutes</h2>
      <History kind="route" name={name} />
    </>
  );
}

function Maintenance({ route }: { route: Route }) {
  const [asks, setAsks] = useState(false);
  const mayWrite = useMayWrite();
  const on = !route.maintenance;
  const run = async () => {
    await ask(`routes/${segment(route.name)}/maintenance`, { method: "PATCH", json: { on } });
    refresh("routes");
  };
  return (
    <Note {...(route.maintenance ? { kind: "warn" as const } : {})}>
      <div class="row">
        {route.maintenance ? "In maintenance: clients get the page of the filter." : "Maintenance is off."}
        {mayWrite && <button onClick={() => setAsks(true)}>{on ? "Turn maintenance on" : "Turn maintenance off"}</button>}
      </div>
      {asks && <Confirm title={on ? "Turn maintenance on?" : "Turn maintenance off?"} verb={on ? "Turn on" : "Turn off"} run={run} close={() => setAsks(false)}><p>{on ? "Clients of this route get the page of the filter at once." : "Requests go to its services again."}</p></Confirm>}
    </Note>
  );
}

function Weights({ route }: { route: Route }) {
  const [weights, setWeights] = useState(() => route.to.map((target) => target.weight));
  const [change, setChange] = useState<"set" | "reset">();
  const mayWrite = useMayWrite() && route.to.length > 1;
  const all = weights.reduce((sum, weight) => sum + (weight || 0), 0);
  const path = `routes/${segment(route.name)}/weights`;
  const run = async () => {
    const json = Object.fromEntries(route.to.map((target, index) => [target.service, weights[index] ?? 0]));
    await (change === "set" ? ask(path, { method: "PATCH", json }) : ask(path, { method: "DELETE" }));
    refresh("routes");
  };
  return (
    <>
      <h2>Leads to</h2>
      <div class="scroll"><table class="small">
        <thead><tr><th>Service</th><th class="n">Weight</th><th class="n">Share</th></tr></thead>
        <tbody>
          {route.to.map((target, index) => (
            <tr key={target.service}>
              <td><a href={link(["services", target.service])}>{target.service}</a></td>
              <td class="n">{mayWrite ? <input class="short" type="number" min={0} max={1000} aria-label={`Weight of ${target.service}`} value={weights[index]} onInput={(event) => setWeights(weights.with(index, event.currentTarget.valueAsNumber))} /> : target.weight}</td>
              <td class="n">{percent(all ? (weights[index] ?? 0) / all : 0)}<span class="meter"><i style={{ width: `${all ? ((weights[index] ?? 0) / all) * 100 : 0}%` }} /></span></td>
            </tr>
          ))}
        </tbody>
      </table></div>
      {mayWrite && <div class="bar"><button onClick={() => setChange("set")} disabled={!all}>Set these weights</button><button onClick={() => setChange("reset")}>Back to those of the configuration</button></div>}
      {change && <Confirm title={change === "set" ? "Set these weights?" : "Take the weights back?"} verb={change === "set" ? "Set" : "Take back"} run={run} close={() => setChange(undefined)}><p>They hold from the next request on.</p></Confirm>}
    </>
  );
}

const ORDERS: Record<Canary["phase"], string[]> = { running: ["pause", "promote", "rollback"], paused: ["resume", "promote", "rollback"], rolled_back: ["start"], finished: ["start", "rollback"] };

function CanaryPart({ name }: { name: string }) {
  const canary = useLive<Canary>(`routes/${segment(name)}/canary`, 3).data;
  const [order, setOrder] = useState<string>();
  const mayWrite = useMayWrite();
  if (!canary) return null;
  const run = async () => {
    await ask(`routes/${segment(name)}/canary/${order}`, { method: "POST" });
    refresh("routes");
  };
  const ratio = (part: number, of: number) => (of ? percent(part / of) : "–");
  return (
    <>
      <h2>Canary</h2>
      <p><State state={canary.phase} /> · {canary.service} gets {canary.share} % · step {canary.step} of {canary.steps.length} ({canary.steps.join(" → ")} %) for {seconds(canary.seconds)}{canary.reason && ` · ${canary.reason}`}</p>
      <div class="scroll"><table class="small">
        <thead><tr><th><span class="unseen">Service</span></th><th class="n">Requests</th><th class="n">Errors</th><th class="n">p99</th></tr></thead>
        <tbody>
          {[["Newcomer", canary.newcomer] as const, ["Others", canary.baseline] as const].map(([title, figures]) => (
            <tr key={title}><td>{title}</td><td class="n">{count(figures.requests)}</td><td class="n">{ratio(figures.errors, figures.requests)}</td><td class="n">{millis(figures.p99_ms)}</td></tr>
          ))}
        </tbody>
      </table></div>
      {mayWrite && <div class="bar">{ORDERS[canary.phase].map((word) => <button key={word} onClick={() => setOrder(word)}>{word[0]?.toUpperCase() + word.slice(1)}</button>)}</div>}
      {order && <Confirm title={`${words(order)} the canary?`} verb={words(order)} run={run} close={() => setOrder(undefined)} />}
    </>
  );
}
