// The proxy at a glance: now, and over the last half hour or day.
import { useState } from "preact/hooks";
import { bytes, count, micros, NONE, percent, seconds, short } from "../format";
import { useLive } from "../live";
import { Chart } from "../parts/chart";
import { Failure, Head, Note, State, Waiting } from "../parts/basics";
import { link } from "../router";
import type { Limits, Series, SeriesOne, Services, Slo, Sources, Status } from "../types";

const last = (values: (number | null)[] | undefined) => values?.at(-1);

export function Overview() {
  const [span, setSpan] = useState("30m");
  const status = useLive<Status>("status", 3);
  const limits = useLive<Limits>("limits", 5).data;
  const services = useLive<Services>("services", 3).data;
  const live = useLive<Series>("series?kind=process&span=30m", 5);
  const day = useLive<Series>(span === "24h" ? "series?kind=process&span=24h" : "", 60);
  const failing = useLive<Sources>("sources", 10).data?.sources.filter((source) => source.state === "failing") ?? [];
  const slos = useLive<{ slos: Slo[] }>("slos", 15).data?.slos ?? [];
  if (!status.data) return <><Head title="Overview" /><Waiting live={status} /></>;
  const now = live.data?.series[0];
  const shown = span === "24h" ? day.data : live.data;
  const step = live.data?.step_s ?? 10;
  const troubled = services?.services.filter((service) => service.state !== "up") ?? [];
  const requests = last(now?.requests);
  return (
    <>
      <Head title="Overview" about={<>up for {seconds(status.data.uptime_seconds)} · plan {status.data.generation} · {status.data.workers} workers</>}>
        <button aria-pressed={span === "30m"} onClick={() => setSpan("30m")}>30 minutes</button>
        <button aria-pressed={span === "24h"} onClick={() => setSpan("24h")}>24 hours</button>
      </Head>
      {status.data.state === "draining" && <Note kind="warn">The proxy drains: it finishes what it has and takes no new connections.</Note>}
      <dl class="figures">
        <Figure name="Requests/s" value={short(requests === undefined || requests === null ? undefined : requests / step)} />
        <Figure name="Errors" value={percent(requests ? (last(now?.errors) ?? 0) / requests : requests === 0 ? 0 : undefined)} />
        <Figure name="p50" value={micros(last(now?.p50_us))} />
        <Figure name="p99" value={micros(last(now?.p99_us))} />
        <Figure name="In flight" value={count(status.data.requests_active)} />
        <Figure name="Connections" value={short(status.data.connections.active)} more={`of ${short(status.data.connections.max)}`} />
        <Figure name="Saturation" value={percent(limits?.saturation)} more={limits?.memory_bytes.used === undefined ? "" : `${bytes(limits.memory_bytes.used)} of ${bytes(limits.memory_bytes.max)}`} />
      </dl>
      {troubled.map((service) => (
        <Note key={service.name} kind={service.state === "down" ? "bad" : "warn"}>
          <a href={link(["services", service.name])}>{service.name}</a> is <State state={service.state} />: {service.endpoints.filter((endpoint) => endpoint.state !== "ready").map((endpoint) => `${endpoint.url} ${endpoint.state.replaceAll("_", " ")}`).join(", ") || "it has no endpoint"}
        </Note>
      ))}
      {failing.length > 0 && (
        <Note kind="warn"><a href={link(["sources"])}>{failing.length === 1 ? "A source" : `${failing.length} sources`}</a> {failing.length === 1 ? "fails" : "fail"}: {[...new Set(failing.flatMap((source) => (source.services.length ? source.services : [`routes from ${source.kind}`])))].slice(0, 8).join(", ")}. What is known stays in use.</Note>
      )}
      {slos.filter((slo) => slo.state !== "ok").map((slo) => (
        <Note key={slo.name} kind="bad"><a href={link(["slos"])}>{slo.name}</a> {slo.state === "burning" ? `burns its error budget; ${percent(slo.budget_left)} are left` : "has used up its error budget"}</Note>
      ))}
      {shown?.series[0] ? <Charts series={shown} one={shown.series[0]} /> : live.error?.status === 404
        ? <Note>This proxy keeps no series: charts are not there.</Note>
        : live.error && !live.error.isLost ? <Failure error={live.error} /> : <p class="dim">The first points come after ten seconds.</p>}
      <h2>Listeners</h2>
      <div class="scroll"><table class="small">
        <thead><tr><th>Name</th><th>Address</th><th>Protocol</th></tr></thead>
        <tbody>{status.data.listeners.map((listener) => <tr key={listener.name + listener.address}><td>{listener.name}</td><td class="mono">{listener.address}</td><td>{listener.protocol}</td></tr>)}</tbody>
      </table></div>
    </>
  );
}

function Figure({ name, value, more }: { name: string; value: string; more?: string }) {
  return <div><dt>{name}</dt><dd>{value}{more && <small>{more}</small>}</dd></div>;
}

/** The charts of an object: rate, errors, latency; of the process also connections and saturation. */
export function Charts({ series, one }: { series: Series; one: SeriesOne }) {
  const { start, step_s: step } = series;
  const rate = one.requests.map((value) => value / step);
  const ratio = one.errors.map((value, index) => (one.requests[index] ? value / (one.requests[index] ?? 1) : 0));
  return (
    <div class="charts">
      <Chart title="Requests per second" {...{ start, step }} show={short} lines={[{ label: "requests", colour: "--p99", values: rate, fill: true }]} />
      <Chart title="Error ratio" floor={0.01} {...{ start, step }} show={(value) => (value ? percent(value) : "0")} lines={[{ label: "errors", colour: "--bad", values: ratio, fill: true }]} />
      <Chart title="Latency" {...{ start, step }} show={(value) => (value ? micros(value) : "0")} lines={[{ label: "p99", colour: "--p99", values: one.p99_us }, { label: "p50", colour: "--p50", values: one.p50_us }]} />
      {series.connections && <Chart title="Client connections" {...{ start, step }} show={short} lines={[{ label: "connections", colour: "--p99", values: series.connections }, { label: "requests in flight", colour: "--p50", values: series.in_flight ?? [] }]} />}
      <Chart title="Bytes per second" binary {...{ start, step }} show={(value) => bytes(Math.round(value))} lines={[{ label: "out", colour: "--p99", values: one.bytes_out.map((value) => value / step) }, { label: "in", colour: "--p50", values: one.bytes_in.map((value) => value / step) }]} />
      {series.saturation && <Chart title="Saturation" floor={0.1} {...{ start, step }} show={(value) => (value ? percent(value) : "0")} lines={[{ label: "saturation", colour: "--warn", values: series.saturation, fill: true }]} />}
    </div>
  );
}

/** The charts of a route, a service or an endpoint. */
export function History({ kind, name, service }: { kind: string; name: string; service?: string }) {
  const path = `series?kind=${kind}&name=${encodeURIComponent(name)}${service ? `&service=${encodeURIComponent(service)}` : ""}&span=30m`;
  const live = useLive<Series>(path, 10);
  const one = live.data?.series[0];
  if (!live.data || !one) return live.error ? <p class="dim">No series: {live.error.message}</p> : <p class="dim">{live.data ? `No traffic in the last 30 minutes ${NONE}` : "Loading…"}</p>;
  return <Charts series={live.data} one={one} />;
}
