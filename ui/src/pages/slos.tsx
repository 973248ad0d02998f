// Objectives: how much of the error budget is left, and how fast it burns.
import { count, percent, seconds, short } from "../format";
import { useLive } from "../live";
import { Empty, Head, Note, State, Waiting } from "../parts/basics";
import { link } from "../router";
import type { Slo } from "../types";

export function SlosPage() {
  const live = useLive<{ slos: Slo[] }>("slos", 5);
  if (!live.data) return <><Head title="SLOs" />{live.error?.status === 404 ? <Note>This version has no objectives.</Note> : <Waiting live={live} />}</>;
  return (
    <>
      <Head title="SLOs" about={`${live.data.slos.length}`} />
      {live.data.slos.length === 0 && <Empty>No objective is written. <a href={link(["configuration"])}>“slos:”</a> of the configuration takes a target for a route or a service.</Empty>}
      {live.data.slos.length > 0 && (
        <div class="scroll"><table class="cards">
          <thead><tr><th>Objective</th><th>Of</th><th>State</th><th class="n">Target</th><th class="n">Good</th><th class="n">Budget left</th><th>Burn rate</th></tr></thead>
          <tbody>
            {live.data.slos.map((slo) => (
              <tr key={slo.name}>
                <td>{slo.name}</td>
                <td data-l="of">{slo.route ? <a href={link(["routes", slo.route])}>{slo.route}</a> : <a href={link(["services", slo.service ?? ""])}>{slo.service}</a>}</td>
                <td><State state={slo.state} /></td>
                <td class="n" data-l="Target">{percent(slo.target)} in {seconds(slo.window_s)}</td>
                <td class="n" data-l="Good">{slo.total ? percent(slo.good / slo.total) : "–"}<span class="cause">of {count(slo.total)}</span></td>
                <td class="n" data-l="Budget left">{percent(slo.budget_left)}<span class="meter"><i style={{ width: `${Math.max(0, slo.budget_left) * 100}%` }} /></span></td>
                <td class="wide" data-l="Burn rate">{slo.burn.map((burn) => `${short(burn.rate)}× over ${seconds(burn.window_s)}`).join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </table></div>
      )}
    </>
  );
}
