// The audit log: who asked for which change, and what came of it.
import { useState } from "preact/hooks";
import { moment } from "../format";
import { useLive } from "../live";
import { Coded, Empty, Head, Note, usePages, Waiting } from "../parts/basics";
import { useMayWrite } from "../role";
import type { AuditEntry } from "../types";

/** Entries that are asked for. */
const LAST = 200;

export function AuditPage() {
  const mayRead = useMayWrite();
  const live = useLive<{ entries: AuditEntry[] }>(mayRead ? `audit?last=${LAST}` : "", 10);
  const [filter, setFilter] = useState("");
  const entries = [...(live.data?.entries ?? [])].reverse();
  const found = entries.filter((entry) => `${who(entry)} ${entry.method} ${entry.target} ${entry.status} ${entry.detail ?? ""}`.includes(filter));
  const [shown, turn] = usePages(found, 50);
  if (!mayRead) return <><Head title="Audit log" /><Note>The audit log is shown to those who logged in with the admin token.</Note></>;
  if (!live.data) return <><Head title="Audit log" /><Waiting live={live} /></>;
  return (
    <>
      <Head title="Audit log" about={`the newest ${LAST} changes that were asked for`}>
        <input type="search" data-filter placeholder="Filter" aria-label="Filter the audit log" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </Head>
      {entries.length === 0 && <Empty>Nobody has asked for a change yet.</Empty>}
      {entries.length > 0 && (
        <div class="scroll">
          <table class="cards">
            <thead><tr><th>Time</th><th>Who</th><th>Change</th><th class="n">Status</th><th>What changed</th></tr></thead>
            <tbody>
              {shown.map((entry) => (
                <tr key={entry.request_id}>
                  <td class="tight">{moment(entry.at)}</td>
                  <td>{who(entry)}</td>
                  <td class="mono wide">{entry.method} {entry.target}</td>
                  <td data-l="Status" class={`n ${entry.status >= 400 ? "bad" : ""}`}>{entry.status}</td>
                  <td class="wide"><Changed entry={entry} /></td>
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

const who = ({ who: { role, uid, peer } }: AuditEntry): string => (uid !== undefined ? `user ${uid} on the socket` : `${peer ?? "somebody"}${role === "read" ? ", read only" : ""}`);

function Changed({ entry }: { entry: AuditEntry }) {
  if (entry.status >= 400) return <Coded text={entry.detail ?? "refused"} />;
  if (entry.before === undefined && entry.after === undefined) return <span class="dim">nothing is recorded</span>;
  const text = (value: unknown) => (value === undefined ? "nothing" : typeof value === "string" ? value : JSON.stringify(value, null, 2));
  return (
    <details>
      <summary>Before and after</summary>
      <pre>{text(entry.before)}</pre>
      <pre>{text(entry.after)}</pre>
    </details>
  );
}
