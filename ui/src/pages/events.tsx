// What happens, as it happens.
import { useEffect, useState } from "preact/hooks";
import { ApiError, stream } from "../api";
import { moment, words } from "../format";
import { Coded, Empty, Head, Note, usePages } from "../parts/basics";
import { link } from "../router";
import type { ProxyEvent } from "../types";

const KEPT = 500;
const BAD = new Set(["endpoint_down", "service_unavailable", "reload_failed", "config_rolled_back", "canary_failed", "certificate_failed", "certificate_expiring", "source_failed", "slo_burning"]);
const GOOD = new Set(["endpoint_up", "service_available", "canary_finished", "source_recovered", "slo_recovered"]);

export function EventsPage() {
  const [events, setEvents] = useState<ProxyEvent[]>([]);
  const [missed, setMissed] = useState(0);
  const [state, setState] = useState("connecting");
  const [filter, setFilter] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let [seen, pause, timer] = [0, 1000, 0];
    const listen = () => {
      if (document.hidden || stop.signal.aborted) return;
      setState("live");
      stream(`events?since=${seen}`, stop.signal, ({ id, event, data }) => {
        pause = 1000;
        if (event === "missed") return setMissed((before) => before + (JSON.parse(data) as { missed: number }).missed);
        seen = Number(id);
        setEvents((before) => [JSON.parse(data) as ProxyEvent, ...before].slice(0, KEPT));
      })
        .catch((error: unknown) => setState(error instanceof ApiError && !error.isLost ? error.message : "lost; it connects again"))
        .finally(() => {
          if (stop.signal.aborted) return;
          timer = window.setTimeout(listen, pause);
          pause = Math.min(pause * 2, 15_000);
        });
    };
    listen();
    document.addEventListener("visibilitychange", listen);
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", listen);
    };
  }, []);
  const found = events.filter((event) => `${event.event} ${words(event.event)} ${event.service} ${event.endpoint} ${event.cause}`.toLowerCase().includes(filter.toLowerCase()));
  const [shown, turn] = usePages(found, 40);
  return (
    <>
      <Head title="Events" about={state}>
        <input type="search" data-filter placeholder="Filter" aria-label="Filter events" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </Head>
      {missed > 0 && <Note kind="warn">{missed} older events are no longer kept.</Note>}
      {events.length === 0 && <Empty>Nothing has happened since the proxy started. Drain an endpoint or apply a configuration to see an event.</Empty>}
      <div class="scroll"><table class="cards" aria-live="polite">
        {events.length > 0 && <thead><tr><th>Time</th><th>Event</th><th>About</th><th>Cause</th></tr></thead>}
        <tbody>
          {shown.map((event) => (
            <tr key={event.id}>
              <td class="tight">{moment(event.time)}</td>
              <td class={`tight ${BAD.has(event.event) ? "bad" : GOOD.has(event.event) ? "ok" : ""}`}>{words(event.event)}</td>
              <td class="text">{event.service && <a href={link(["services", event.service])}>{event.service}</a>} <span class="mono">{event.endpoint}</span></td>
              <td class="wide text"><Coded text={event.cause ?? ""} />{event.event.startsWith("source_") && <> · <a href={link(["sources"], { service: event.service ?? undefined })}>its source</a></>}</td>
            </tr>
          ))}
        </tbody>
      </table></div>
      {turn}
    </>
  );
}
