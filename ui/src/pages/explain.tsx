// Which route takes a request, why the others do not, and where it goes.
import { useEffect, useState } from "preact/hooks";
import { ask, query as text } from "../api";
import { percent } from "../format";
import { Coded, Failure, Head, Note, State, useAction } from "../parts/basics";
import { link, replaceQuery } from "../router";
import type { Explanation } from "../types";

export function ExplainPage({ query }: { query: URLSearchParams }) {
  const of = (name: string) => query.get(name) ?? "";
  const [form, setForm] = useState({ method: of("method") || "GET", url: of("url"), from: of("from"), headers: of("headers") });
  const [told, setTold] = useState<Explanation>();
  const [busy, error, start] = useAction();
  const put = (name: keyof typeof form) => (event: Event) => setForm({ ...form, [name]: (event.currentTarget as HTMLInputElement).value });
  const run = () =>
    start(async () => {
      const headers = form.headers.split("\n").filter((line) => line.trim());
      const fields = headers.map((line) => `&header=${encodeURIComponent(line.trim())}`).join("");
      setTold((await ask<Explanation>(`explain${text({ method: form.method, url: form.url, from: form.from })}${fields}`)).data);
    });
  useEffect(() => {
    if (form.url) run();
  }, []);
  const submit = (event: Event) => {
    event.preventDefault();
    replaceQuery(form);
    run();
  };
  return (
    <>
      <Head title="Explain" about="nothing is sent: the decisions of the running configuration" />
      <form class="bar" onSubmit={submit}>
        <label>Method<select value={form.method} onChange={put("method")}>{["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].map((method) => <option key={method}>{method}</option>)}</select></label>
        <label class="grow">URL or path<input data-filter required placeholder="http://shop.example.com/products/42" value={form.url} onInput={put("url")} /></label>
        <label>From<input placeholder="127.0.0.1" value={form.from} onInput={put("from")} /></label>
        <label class="grow">Headers, one a line<textarea rows={1} placeholder="Cookie: a=b" value={form.headers} onInput={put("headers")} /></label>
        <button class="main" disabled={busy}>Explain</button>
      </form>
      {error !== undefined && <Failure error={error} />}
      {told && <Told told={told} />}
    </>
  );
}

function Told({ told }: { told: Explanation }) {
  const { route } = told;
  return (
    <>
      <Note kind={route ? "ok" : "warn"}><div id="outcome">{outcome(told)}</div></Note>
      {route && (
        <>
          <h2>Route</h2>
          <p><a href={link(["routes", route.name])}>{route.name}</a> <span class="mono dim">{route.matches}</span>{route.origin && <span class="dim"> written in {route.origin}</span>}</p>
          {route.filters.length > 0 && <p>Filters: {route.filters.map((step) => `${step.name}${step.before === step.after ? "" : ` (${step.before} → ${step.after})`}`).join(", ")}</p>}
          {route.services.map((service) => (
            <section key={service.name}>
              <h2><a href={link(["services", service.name])}>{service.name}</a> <span class="dim">{service.share < 100 && percent(service.share / 100)} {service.balance}{service.key && ` by ${service.key}`} · {service.retry.attempts} attempts</span></h2>
              {service.source && <p class="dim">Endpoints come from <a href={link(["sources"], { service: service.name })}>{service.source}</a></p>}
              <div class="scroll"><table>
                <thead><tr><th>Endpoint</th><th>State</th><th class="n">Weight</th><th class="n">In flight</th></tr></thead>
                <tbody>{service.endpoints.map((endpoint) => <tr key={endpoint.url}><td><span class="mono">{endpoint.url}</span>{endpoint.origin && <span class="cause">{endpoint.origin}</span>}</td><td>{endpoint.state && <State state={endpoint.state} />} <span class="dim">{endpoint.cause}</span></td><td class="n">{endpoint.weight}</td><td class="n">{endpoint.in_flight}</td></tr>)}</tbody>
              </table></div>
            </section>
          ))}
        </>
      )}
      <h2>Other routes</h2>
      <div class="scroll"><table>
        <thead><tr><th>Route</th><th>Matches</th><th>Why not</th></tr></thead>
        <tbody>
          {told.other_routes.map((other) => (
            <tr key={other.name}>
              <td><a href={link(["routes", other.name])}>{other.name}</a></td><td class="mono">{other.matches}</td>
              <td><Coded text={other.because.fails ? `${other.because.fails.condition}${other.because.fails.name ? ` ${other.because.fails.name}` : ""} must be ${other.because.fails.expected}${other.because.fails.found === undefined ? "" : `, not ${other.because.fails.found}`}` : `another goes before it: ${other.because.after}`} /></td>
            </tr>
          ))}
        </tbody>
      </table></div>
      {told.more_routes > 0 && <p class="dim">{told.more_routes} more do not match by host or path.</p>}
      {told.origins && <><h2>Where values are written</h2><div class="scroll"><table><tbody>{told.origins.map((origin) => <tr key={origin.object + origin.field}><td><Coded text={origin.object} /></td><td class="mono">{origin.field}</td><td class="mono">{origin.value}</td><td class="dim">{origin.origin}</td></tr>)}</tbody></table></div></>}
    </>
  );
}

function outcome({ outcome, route }: Explanation): string {
  const [kind, facts] = typeof outcome === "string" ? [outcome, {}] : (Object.entries(outcome)[0] ?? ["unknown", {}]);
  const parts = Object.entries(facts).map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`).join(", ");
  if (kind === "forwarded") return `Route “${route?.name}” takes it, and it is forwarded: ${parts}.`;
  return `${route ? `Route “${route.name}” takes it, and it is ${kind.replaceAll("_", " ")}` : `No route takes it: it is ${kind.replaceAll("_", " ")}`}${parts ? `: ${parts}` : ""}.`;
}
