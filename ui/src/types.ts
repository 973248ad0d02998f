// What the admin API answers, as far as the dashboard reads it (docs/reference/openapi.json says all of it).

export interface Status {
  version: string;
  pid: number;
  uptime_seconds: number;
  state: "running" | "draining";
  generation: number;
  workers: number;
  listeners: Listener[];
  connections: { active: number; max: number };
  requests_active: number;
  descriptors: { used?: number; limit: number };
  services: { up: number; degraded: number; down: number };
}

export interface Listener {
  name: string;
  address: string;
  protocol: string;
}

export interface Usage {
  used?: number;
  max: number;
}

export interface Limits {
  descriptors: Usage;
  connections: Usage;
  upstream_connections: Usage;
  requests: Usage;
  memory_bytes: Usage;
  saturation: number;
}

export type EndpointState =
  | "ready"
  | "slow_start"
  | "unhealthy"
  | "ejected"
  | "draining"
  | "maintenance"
  | "unchecked";

export interface Endpoint {
  id: string;
  url: string;
  weight: number;
  tier: number;
  state: EndpointState;
  since: string;
  cause?: string;
  source: "file" | "runtime" | "discovered";
  origin?: string;
  addresses: string[];
  requests_active: number;
  requests_total: number;
  failures_total: number;
  latency_ms?: number;
}

/** An entry of the audit log. */
export interface AuditEntry {
  at: string;
  request_id: string;
  who: { role: "anyone" | "read" | "write"; uid?: number; peer?: string };
  method: string;
  target: string;
  before?: unknown;
  after?: unknown;
  status: number;
  detail?: string;
}

export interface Service {
  name: string;
  balance: string;
  state: "up" | "degraded" | "down";
  insecure_skip_verify: boolean;
  endpoints: Endpoint[];
  requests_active: number;
  queued: number;
}

/** A source of endpoints, or of documents with routes. */
export interface Source {
  kind: string;
  place: string;
  query: string;
  services: string[];
  state: "waiting" | "current" | "failing";
  endpoints?: number;
  documents?: number;
  left_out?: string[];
  age_s?: number;
  changed?: string;
  stale_after_s: number;
  updates_total: number;
  failures_total: number;
  error?: string;
  flaw?: string;
}

export interface Sources {
  sources: Source[];
}

export interface Services {
  version: number;
  services: Service[];
}

export interface Route {
  name: string;
  origin?: string;
  matches: string;
  listeners?: string[];
  filters?: string[];
  canary?: boolean;
  to: { service: string; weight: number }[];
  sealed?: string;
  maintenance?: boolean;
}

export interface Routes {
  routes: Route[];
}

export interface CanaryFigures {
  requests: number;
  errors: number;
  p99_ms?: number;
}

export interface Canary {
  route: string;
  service: string;
  phase: "running" | "paused" | "rolled_back" | "finished";
  step: number;
  steps: number[];
  share: number;
  reason: string;
  seconds: number;
  newcomer: CanaryFigures;
  baseline: CanaryFigures;
}

export interface SeriesOne {
  name: string;
  service: string | null;
  requests: number[];
  errors: number[];
  bytes_in: number[];
  bytes_out: number[];
  p50_us: (number | null)[];
  p99_us: (number | null)[];
}

export interface Series {
  step_s: number;
  start: number;
  kind: string;
  series: SeriesOne[];
  /** Of the process, at the end of each step. */
  connections?: number[];
  in_flight?: number[];
  saturation?: number[];
}

export interface Slo {
  name: string;
  route?: string;
  service?: string;
  target: number;
  window_s: number;
  good: number;
  total: number;
  budget_left: number;
  burn: { window_s: number; rate: number }[];
  state: "ok" | "burning" | "exhausted";
}

export interface Attempt {
  endpoint?: string;
  began_us: number;
  connect_us: number;
  tls_us?: number;
  reused: boolean;
  hedge: boolean;
  answered: boolean;
  failed_us?: number;
  fault?: string;
  fault_detail?: string;
}

export interface RequestRecord {
  id?: string;
  began: string;
  open: boolean;
  worker: number;
  listener?: string;
  client_ip: string;
  client_port?: number;
  method?: string;
  host?: string;
  path?: string;
  query?: string;
  route?: string;
  filters?: { name: string; acted: boolean }[];
  service?: string;
  attempts: Attempt[];
  wait_us?: number;
  ttfb_us?: number;
  duration_us: number;
  bytes_in: number;
  bytes_out: number;
  status?: number;
  fault?: string;
  fault_side?: string;
  fault_detail?: string;
  user?: string;
  reason?: string;
  ended?: string;
  kept?: string;
  request_headers?: [string, string][];
  response_headers?: [string, string][];
}

export interface Requests {
  keep: number;
  slow_ms: number;
  complete_since?: string;
  requests: RequestRecord[];
}

export interface ConfigDocument {
  text: string;
  format: "yaml" | "json" | "toml";
  etag: string;
  path?: string;
  writable: boolean;
}

export interface Mistake {
  file?: string;
  line: number;
  column: number;
  message: string;
  help?: string;
}

export interface FieldChange {
  field: string;
  before?: string;
  after?: string;
  hidden: boolean;
}

export interface ConfigChange {
  kind: string;
  name: string;
  service?: string;
  action: "added" | "changed" | "moved" | "removed";
  origin?: string;
  fields: FieldChange[];
}

export interface WatchStatus {
  state: "watching" | "passed" | "rolled_back" | "replaced" | "failed";
  until: string;
  verdict?: string;
}

export interface ConfigOutcome {
  etag: string;
  generation: number;
  dry_run: boolean;
  number?: number;
  changes: ConfigChange[];
  listeners: { name: string; address: string; opens: boolean; connections: number }[];
  waits_for_restart: string[];
  drift: { kind: string; name: string; endpoint?: string; change: string; void: boolean }[];
  notes: string[];
  warnings: string[];
  watch?: WatchStatus;
  text: string;
}

export interface HistoryEntry {
  number: number;
  at: string;
  generation: number;
  origin: string;
  by: { via: string; uid?: number; peer?: string };
  etag: string;
  bytes: number;
  ephemeral: boolean;
  state: "running" | "replaced" | "rolled_back";
  watch?: WatchStatus;
}

export interface ProxyEvent {
  id: number;
  time: string;
  event: string;
  service: string | null;
  endpoint: string | null;
  cause: string;
  endpoints: { url: string; weight: number; state: EndpointState }[];
}

export interface Certificate {
  listener?: string;
  default: boolean;
  names: string[];
  addresses?: string[];
  subject: string;
  issuer: string;
  self_signed: boolean;
  serial: string;
  sha256: string;
  key_type: string;
  not_before: string;
  not_after: string;
  days_left: number;
  cert?: string;
  key?: string;
  authority?: string;
  placeholder: boolean;
  problem?: string;
}

export interface AddressList {
  name: string;
  configured: string;
  added: number;
}

export interface AddressEntry {
  network: string;
  reason: string;
  since: number;
  until?: number;
  ban?: string;
}

export interface Problem {
  title: string;
  status: number;
  detail: string;
  field?: string;
  help?: string;
  line?: number;
  column?: number;
  keys?: string[];
  mistakes?: Mistake[];
  current?: string;
}

export interface Explanation {
  request: { method: string; url: string; host: string; path: string; query?: string; client: string; listener: string };
  route?: {
    name: string;
    matches: string;
    origin?: string;
    filters: { name: string; before: string; after: string; changed: boolean }[];
    split_by?: string;
    services: {
      name: string;
      weight?: number;
      share: number;
      chosen?: boolean;
      host?: string;
      balance: string;
      key?: string;
      source?: string;
      endpoints: { url: string; weight: number; tier: number; state?: string; cause?: string; in_flight?: number; origin?: string }[];
      more_endpoints: number;
      retry: { attempts: number; budget_percent: number; per_try_timeout_ms?: number; hedge_after_ms?: number };
      max_in_flight?: number;
    }[];
    timeouts: { connect_ms: number; first_byte_ms: number; idle_ms: number; request_ms?: number };
    limits: { max_body?: number; max_in_flight?: number };
  };
  other_routes: {
    name: string;
    matches: string;
    because: { fails?: { condition: string; name?: string; expected: string; found?: string }; after?: string };
  }[];
  more_routes: number;
  outcome: Record<string, Record<string, unknown>> | string;
  origins?: { object: string; field: string; value?: string; origin: string }[];
}
