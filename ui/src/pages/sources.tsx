// Sources of endpoints and routes: whom each asks for what, how it stands, and why it fails.
import { useState } from "preact/hooks";
import { ago, count, NONE, seconds } from "../format";
import { useLive } from "../live";
import { Coded, Empty, Head, Note, State, usePages, Waiting } from "../parts/basics";
import { link } from "../router";
import type { Source, Sources } from "../types";

/** Services of a source that are named in its row. */
const NAMED = 4;

/** The sources of a service; `undefined` until they are known. */
export function useSourcesOf(service: string): Source[] | undefined {
  return useLive<Sources>("sources", 3).data?.sources.filter((source) => source.services.includes(service));
}

/** Those that need somebody stand on top. */
const RANK = { failing: 0, waiting: 1, current: 2 };

export function SourcesPage({ service }: { service: string | undefined }) {
  const live = useLive<Sources>("sources", 2);
  const [filter, setFilter] = useState("");
  const text = filter.toLowerCase();
  const all = (live.data?.sources ?? []).filter((source) => !service || source.services.includes(service));
  const found = all.filter((source) => `${source.kind} ${source.place} ${source.query} ${source.state} ${source.services.join(" ") || "routes"}`.toLowerCase().includes(text));
  const [shown, turn] = usePages(found.sort((a, b) => RANK[a.state] - RANK[b.state]), 40);
  if (!live.data) return <><Head title="Sources" /><Waiting live={live} /></>;
  const failing = all.filter((source) => source.state === "failing");
  return (
    <>
      <Head title="Sources" about={service ? <>of <a href={link(["services", service])}>{service}</a> · <a href={link(["sources"])}>all sources</a></> : `${all.length}, where endpoints and routes come from`}>
        <input type="search" data-filter placeholder="Filter" aria-label="Filter sources" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </Head>
      {all.length === 0 && <Empty>{service ? "The endpoints of this service are written in the configuration." : <>No service has a source. <a href={link(["configuration"])}>“discover:” of a service</a> names the registry that knows its endpoints.</>}</Empty>}
      {failing.length > 0 && <Note kind={failing.some((source) => !known(source)) ? "bad" : "warn"}>{failing.length === 1 ? "One source fails" : `${failing.length} sources fail`}. What is known stays in use; each source is asked again by itself, after pauses of up to 30 s.</Note>}
      {all.length > 0 && (
        <div class="scroll">
          <table class="cards">
            <thead><tr><th>Source</th><th>State</th><th>For</th><th class="n">Found</th><th>Last heard</th><th>Last change</th><th class="n">Updates</th><th class="n">Failures</th></tr></thead>
            <tbody>{shown.map((source) => <Row key={`${source.kind} ${source.place} ${source.query} ${source.stale_after_s}`} source={source} />)}</tbody>
          </table>
        </div>
      )}
      {turn}
    </>
  );
}

function Row({ source }: { source: Source }) {
  return (
    <tr>
      <td class="wide">
        <b>{source.kind}</b> <span class="mono">{source.query}</span>
        <span class="cause">{source.kind === "file" ? "" : "at "}{source.place}</span>
        {source.error && <span class="cause bad"><Coded text={source.error} /></span>}
        {source.flaw && <span class="cause warn">Not used: <Coded text={source.flaw} /></span>}
        {source.left_out?.map((flaw) => <span key={flaw} class="cause warn">Left out: <Coded text={flaw} /></span>)}
      </td>
      <td><State state={source.state} /><span class="cause">{standing(source)}</span></td>
      <td data-l="For">
        {source.services.length === 0 && <a href={link(["routes"])}>routes</a>}
        {source.services.slice(0, NAMED).map((name, index) => <span key={name}>{index > 0 && ", "}<a href={link(["services", name])}>{name}</a></span>)}
        {source.services.length > NAMED && <details><summary>{source.services.length - NAMED} more</summary>{source.services.slice(NAMED).map((name) => <div key={name}><a href={link(["services", name])}>{name}</a></div>)}</details>}
      </td>
      <td class="n" data-l="Found">{found(source)}</td>
      <td class="tight" data-l="Heard"><Age source={source} /></td>
      <td class="tight" data-l="Changed">{source.changed ? <span title={source.changed}>{ago(source.changed)}</span> : NONE}</td>
      <td class="n" data-l="Updates">{count(source.updates_total)}</td>
      <td class="n" data-l="Failures">{count(source.failures_total)}</td>
    </tr>
  );
}

/** How much it has told of; `undefined`: it has told of nothing yet. */
const known = (source: Source): number | undefined => source.endpoints ?? source.documents;

function found(source: Source): string {
  const [all, word] = [known(source), source.documents === undefined ? "endpoint" : "document"];
  return all === undefined ? NONE : `${count(all)} ${word}${all === 1 ? "" : "s"}`;
}

function standing(source: Source): string {
  if (source.state === "current") return "";
  const all = known(source);
  return all ? "what is known stays in use" : all === 0 ? "it has said that there are none" : "nothing is known yet";
}

/** How long ago the source was last heard, against how often it must be. */
function Age({ source: { age_s, stale_after_s } }: { source: Source }) {
  const rhythm = <span class="cause">at least every {seconds(stale_after_s)}</span>;
  if (age_s === undefined) return <>never{rhythm}</>;
  const isLate = age_s > stale_after_s;
  return <><span class={isLate ? "warn" : ""}>{seconds(age_s)} ago{isLate && ", late"}</span><span class="meter"><i class={isLate ? "late" : ""} style={{ width: `${Math.min(100, (age_s / stale_after_s) * 100)}%` }} /></span>{rhythm}</>;
}
