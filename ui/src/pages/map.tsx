// Where requests go: listener → route → service → endpoint, coloured by health, sized by rate.
import { useState } from "preact/hooks";
import { short } from "../format";
import { useLive } from "../live";
import { Empty, Head, tone, Waiting } from "../parts/basics";
import { link } from "../router";
import type { Route, Routes, Series, Service, Services, Status } from "../types";
import { useRates } from "./services";

/** Routes and endpoints that are drawn; more are counted. */
const ROUTES = 60;
const ENDPOINTS = 12;
const ROW = 30;
const WIDTH = 1182;
const COLUMNS = [0, 190, 560, 860] as const;
const BOX = [130, 270, 200, 320] as const;

interface Node {
  key: string;
  column: 0 | 1 | 2 | 3;
  y: number;
  title: string;
  about: string;
  href?: string;
  tone: string;
}

export function MapPage() {
  const status = useLive<Status>("status", 3).data;
  const routes = useLive<Routes>("routes", 5);
  const services = useLive<Services>("services", 2);
  const series = useLive<Series>("series?kind=route&span=30m&limit=100", 10).data;
  const rates = useRates(services);
  const [filter, setFilter] = useState("");
  const [endpoints, setEndpoints] = useState(true);
  if (!routes.data || !services.data) return <><Head title="Map" /><Waiting live={routes.data ? services : routes} /></>;
  const text = filter.toLowerCase();
  const fits = (route: Route) => `${route.name} ${route.matches} ${route.to.map((target) => target.service).join(" ")}`.toLowerCase().includes(text);
  const all = routes.data.routes.filter(fits);
  const shown = all.slice(0, ROUTES);
  const routeRates = new Map(series?.series.map((one) => [one.name, (one.requests.at(-1) ?? 0) / series.step_s]));
  const drawing = draw(shown, services.data.services, status, rates, routeRates, endpoints);
  return (
    <>
      <Head title="Map" about={all.length > ROUTES ? `${ROUTES} of ${all.length} routes: filter to see others` : `${all.length} routes`}>
        <label class="row"><input type="checkbox" checked={endpoints} onChange={(event) => setEndpoints(event.currentTarget.checked)} />Endpoints</label>
        <input type="search" data-filter placeholder="Filter routes and services" aria-label="Filter the map" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      </Head>
      {shown.length === 0 && <Empty>{text ? "No route fits the filter." : "There is no route yet."}</Empty>}
      <div class="scroll">
        <svg class="map" viewBox={`0 0 ${WIDTH} ${drawing.height}`} role="group" aria-label="Listeners, routes, services and endpoints">
          {drawing.edges.map((edge) => <path key={edge.key} d={edge.d} class={edge.tone} stroke-width={edge.width} />)}
          {drawing.nodes.map((node) => <Box key={node.key} node={node} />)}
        </svg>
      </div>
    </>
  );
}

function Box({ node }: { node: Node }) {
  const [x, width] = [COLUMNS[node.column], BOX[node.column]];
  const room = Math.floor((width - 78) / 6.7);
  const title = node.title.length > room ? `${node.title.slice(0, room - 1)}…` : node.title;
  const inside = (
    <>
      <title>{`${node.title}${node.about && `, ${node.about}`}`}</title>
      <rect x={x + 0.5} y={node.y + 0.5} width={width} height={ROW - 7} rx={4} />
      <circle class={node.tone} cx={x + 11} cy={node.y + 12} r={4} />
      <text x={x + 22} y={node.y + 16}>{title}</text>
      <text class="dimtext" x={x + width - 7} y={node.y + 16} text-anchor="end">{node.about}</text>
    </>
  );
  return node.href ? <a href={node.href}>{inside}</a> : <g>{inside}</g>;
}

interface Edge {
  key: string;
  d: string;
  width: number;
  tone: string;
}

/** Wider with the rate, by its logarithm: 1 to 9 pixels. */
const width = (rate: number | undefined) => Math.min(9, 1 + Math.log2(1 + (rate ?? 0)));

function draw(routes: Route[], services: Service[], status: Status | undefined, rates: ReadonlyMap<string, number>, routeRates: Map<string, number>, withEndpoints: boolean): { nodes: Node[]; edges: Edge[]; height: number } {
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  const at = new Map<string, Node>();
  const next = [0, 0, 0, 0];
  const put = (node: Omit<Node, "y">): Node => {
    const known = at.get(node.key);
    if (known) return known;
    const placed = { ...node, y: next[node.column] ?? 0 };
    next[node.column] = placed.y + ROW;
    at.set(node.key, placed);
    nodes.push(placed);
    return placed;
  };
  const join = (from: Node, to: Node, rate: number | undefined, colour: string) => {
    const [x1, x2] = [COLUMNS[from.column] + BOX[from.column], COLUMNS[to.column]];
    const [y1, y2, middle] = [from.y + 12, to.y + 12, (x1 + x2) / 2];
    edges.push({ key: `${from.key}→${to.key}`, d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, width: width(rate), tone: colour });
  };
  const http = (status?.listeners ?? []).filter((listener) => listener.protocol === "http");
  const byName = new Map(services.map((service) => [service.name, service]));
  for (const route of routes) {
    const targets = route.to.map((target) => byName.get(target.service));
    const worst = route.maintenance ? "warn" : targets.some((service) => service?.state === "down") ? "bad" : targets.some((service) => service?.state === "degraded") ? "warn" : "ok";
    const rate = routeRates.get(route.name);
    const box = put({ key: `r ${route.name}`, column: 1, title: route.name, about: rate === undefined ? "" : `${short(rate)}/s`, href: link(["routes", route.name]), tone: worst });
    const names = route.listeners?.length ? route.listeners : [...new Set(http.map((listener) => listener.name))];
    for (const name of names) join(put({ key: `l ${name}`, column: 0, title: name, about: "", tone: "ok" }), box, names.length === 1 ? rate : 0, "");
    for (const target of route.to) {
      const service = byName.get(target.service);
      const colour = service ? tone(service.state) : "dim";
      const rated = rates.get(target.service);
      const node = put({ key: `s ${target.service}`, column: 2, title: target.service, about: rated === undefined ? "" : `${short(rated)}/s`, href: link(["services", target.service]), tone: colour });
      join(box, node, target.weight ? (rate ?? rated) : 0, colour === "ok" ? "" : colour);
    }
  }
  for (const service of withEndpoints ? services : []) {
    const node = at.get(`s ${service.name}`);
    if (!node) continue;
    for (const endpoint of service.endpoints.slice(0, ENDPOINTS)) {
      const [colour, rate] = [tone(endpoint.state), rates.get(`${service.name}\n${endpoint.id}`)];
      const about = endpoint.state === "ready" ? (rate === undefined ? "" : `${short(rate)}/s`) : endpoint.state.replaceAll("_", " ");
      join(node, put({ key: `e ${service.name} ${endpoint.id}`, column: 3, title: endpoint.url.replace(/^https?:\/\//, ""), about, href: link(["services", service.name]), tone: colour }), rate, colour === "ok" ? "" : colour);
    }
    const more = service.endpoints.length - ENDPOINTS;
    if (more > 0) join(node, put({ key: `m ${service.name}`, column: 3, title: `${more} more`, about: "", href: link(["services", service.name]), tone: "dim" }), 0, "");
  }
  return { nodes, edges, height: Math.max(...next, ROW) };
}
