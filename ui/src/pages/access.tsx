// Lists of addresses, and what the process may use.
import { useState } from "preact/hooks";
import { ask, query as text, segment } from "../api";
import { bytes, count, moment, percent } from "../format";
import { refresh, useLive } from "../live";
import { Confirm, Empty, Failure, Head, useAction, usePages, Waiting } from "../parts/basics";
import { useMayWrite } from "../role";
import { link } from "../router";
import type { AddressEntry, AddressList, Limits, Usage } from "../types";

export function AccessPage({ list }: { list: string | undefined }) {
  const live = useLive<{ lists: AddressList[] }>("access", 10);
  const limits = useLive<Limits>("limits", 5).data;
  return (
    <>
      <Head title="Access" about="lists of addresses, and limits" />
      {!live.data && <Waiting live={live} />}
      {live.data?.lists.length === 0 && <Empty>There is no list. <a href={link(["configuration"])}>Write one under “access:”</a> with <code>lists:</code> to block addresses while the proxy runs.</Empty>}
      {live.data && live.data.lists.length > 0 && (
        <div class="scroll"><table class="small">
          <thead><tr><th>List</th><th>In the configuration</th><th class="n">Added here</th></tr></thead>
          <tbody>{live.data.lists.map((one) => <tr key={one.name}><td><a href={link(["access", one.name])} aria-current={one.name === list ? "true" : undefined}>{one.name}</a></td><td class="mono">{one.configured || "–"}</td><td class="n">{count(one.added)}</td></tr>)}</tbody>
        </table></div>
      )}
      {live.data && (list ?? live.data.lists[0]?.name) && <List key={list} name={list ?? live.data.lists[0]?.name ?? ""} />}
      <h2>Limits</h2>
      {limits && (
        <div class="scroll"><table class="small">
          <thead><tr><th>What</th><th class="n">In use</th><th class="n">Limit</th><th class="n">Share</th></tr></thead>
          <tbody>
            <Use name="Client connections" usage={limits.connections} />
            <Use name="Requests under way" usage={limits.requests} />
            <Use name="File descriptors" usage={limits.descriptors} />
            <Use name="Upstream connections" usage={limits.upstream_connections} />
            <Use name="Memory" usage={limits.memory_bytes} show={bytes} />
          </tbody>
        </table></div>
      )}
    </>
  );
}

function Use({ name, usage, show = count }: { name: string; usage: Usage; show?: (value: number) => string }) {
  const share = usage.used === undefined ? undefined : usage.used / usage.max;
  return <tr><td>{name}</td><td class="n">{usage.used === undefined ? "–" : show(usage.used)}</td><td class="n">{show(usage.max)}</td><td class="n">{percent(share)}<span class="meter"><i style={{ width: `${Math.min(100, (share ?? 0) * 100)}%` }} /></span></td></tr>;
}

function List({ name }: { name: string }) {
  const live = useLive<{ entries: AddressEntry[] }>(`access/${segment(name)}`, 10);
  const [form, setForm] = useState({ network: "", for: "1h", reason: "" });
  const [busy, error, start] = useAction();
  const [gone, setGone] = useState<string>();
  const [shown, turn] = usePages(live.data?.entries ?? [], 100);
  const mayWrite = useMayWrite();
  const put = (member: keyof typeof form) => (event: Event) => setForm({ ...form, [member]: (event.currentTarget as HTMLInputElement).value });
  const add = (event: Event) => {
    event.preventDefault();
    start(async () => {
      const json = Object.fromEntries(Object.entries(form).filter(([, value]) => value));
      await ask(`access/${segment(name)}`, { method: "POST", json });
      setForm({ ...form, network: "" });
      refresh("access");
    });
  };
  return (
    <>
      <h2>{name}</h2>
      {mayWrite && (
        <form class="bar" onSubmit={add}>
          <label>Network or address<input data-filter required placeholder="192.0.2.0/24" value={form.network} onInput={put("network")} /></label>
          <label>For (empty: until taken out)<input placeholder="1h" value={form.for} onInput={put("for")} /></label>
          <label class="grow">Reason<input value={form.reason} onInput={put("reason")} /></label>
          <button class="main" disabled={busy}>Add</button>
        </form>
      )}
      {error !== undefined && <Failure error={error} />}
      {live.data?.entries.length === 0 && <Empty>Nothing was added while the proxy runs.</Empty>}
      {shown.length > 0 && (
        <div class="scroll"><table>
          <thead><tr><th>Network</th><th>Since</th><th>Until</th><th>Reason</th>{mayWrite && <th><span class="unseen">Actions</span></th>}</tr></thead>
          <tbody>{shown.map((entry) => <tr key={entry.network}><td class="mono">{entry.network}</td><td class="tight">{moment(entry.since)}</td><td class="tight">{entry.until ? moment(entry.until) : "taken out"}</td><td>{entry.reason}{entry.ban && <span class="dim"> by the ban {entry.ban}</span>}</td>{mayWrite && <td><div class="row"><button onClick={() => setGone(entry.network)}>Take out</button></div></td>}</tr>)}</tbody>
        </table></div>
      )}
      {turn}
      {gone && <Confirm title="Take it out of the list?" verb="Take out" close={() => setGone(undefined)} run={async () => { await ask(`access/${segment(name)}${text({ network: gone })}`, { method: "DELETE" }); refresh("access"); }}><p class="mono">{gone}</p></Confirm>}
    </>
  );
}
