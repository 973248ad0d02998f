// Certificates in use, the one that ends first on top.
import { useLive } from "../live";
import { Empty, Head, Waiting } from "../parts/basics";
import { link } from "../router";
import type { Certificate } from "../types";

export function CertificatesPage() {
  const live = useLive<{ certificates: Certificate[] }>("certificates", 30);
  if (!live.data) return <><Head title="Certificates" /><Waiting live={live} /></>;
  const all = [...live.data.certificates].sort((a, b) => a.days_left - b.days_left);
  return (
    <>
      <Head title="Certificates" about={`${all.length}`} />
      {all.length === 0 && <Empty>No listener has TLS. <a href={link(["configuration"])}>“tls:” of a listener</a> names a certificate, or asks an authority for one.</Empty>}
      {all.length > 0 && (
        <div class="scroll">
          <table class="cards">
            <thead><tr><th>Names</th><th>Listener</th><th class="n">Days left</th><th>Until</th><th>Issuer</th><th>Key</th><th>From</th></tr></thead>
            <tbody>
              {all.map((one) => (
                <tr key={one.sha256 + one.listener}>
                  <td class="full">{[...one.names, ...(one.addresses ?? [])].join(", ")}{one.default && <span class="dim"> default</span>}{one.placeholder && <span class="cause warn">stands in for one that is not issued yet</span>}{one.problem && <span class="cause bad">{one.problem}</span>}</td>
                  <td data-l="Listener">{one.listener ?? "admin API"}</td>
                  <td data-l="Days left" class={`n ${one.days_left < 8 ? "bad" : one.days_left < 31 ? "warn" : ""}`}>{one.days_left}</td>
                  <td class="tight" data-l="Until">{one.not_after.slice(0, 10)}</td>
                  <td data-l="Issuer">{one.self_signed ? "itself" : one.issuer}</td>
                  <td class="tight" data-l="Key">{one.key_type}</td>
                  <td class="mono" data-l="From">{one.authority ?? one.cert}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
