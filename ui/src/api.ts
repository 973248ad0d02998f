// The admin API, as every page asks it: with the cookie of the session, and problem documents as errors.
import type { Problem } from "./types";

const BASE = "api/v1/";

/** An answer that is no success. `status` 0: there was no answer. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail);
  }

  /** The proxy was not reached: it is gone, restarting, or the network is. */
  get isLost(): boolean {
    return this.status === 0;
  }
}

export interface Answer<T> {
  data: T;
  etag: string | null;
}

export interface Call {
  method?: string;
  json?: unknown;
  text?: string;
  type?: string;
  ifMatch?: string;
  accept?: string;
  signal?: AbortSignal;
}

let onOver: () => void = () => {};

/** Has a function called when the session is over. */
export function whenSessionIsOver(call: () => void): void {
  onOver = call;
}

/** A text as one segment of a path. */
export const segment = (text: string): string => encodeURIComponent(text);

/** A query without what is empty. */
export function query(pairs: Record<string, string | number | boolean | undefined>): string {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(pairs)) {
    if (value !== undefined && value !== "" && value !== false) all.append(name, String(value));
  }
  const text = all.toString();
  return text ? `?${text}` : "";
}

async function send(path: string, call: Call): Promise<Response> {
  const headers: Record<string, string> = { Accept: call.accept ?? "application/json" };
  const method = call.method ?? "GET";
  if (method !== "GET") headers["X-Thalweg-Request"] = "1";
  let body: string | undefined;
  if (call.json !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(call.json);
  } else if (call.text !== undefined) {
    headers["Content-Type"] = call.type ?? "application/yaml";
    body = call.text;
  }
  if (call.ifMatch) headers["If-Match"] = call.ifMatch;
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) init.body = body;
  if (call.signal) init.signal = call.signal;
  let response: Response;
  try {
    response = await fetch(BASE + path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { title: "No answer", status: 0, detail: "the proxy does not answer" });
  }
  if (response.ok) return response;
  const problem = await readProblem(response);
  if (response.status === 401 && path !== "session") onOver();
  throw new ApiError(response.status, problem);
}

async function readProblem(response: Response): Promise<Problem> {
  try {
    const document = (await response.json()) as Problem;
    if (typeof document.detail === "string") return document;
  } catch {
    // Not a problem document: something in between has answered.
  }
  const detail = `unexpected answer with status ${response.status}`;
  return { title: response.statusText, status: response.status, detail };
}

/** Asks for JSON. */
export async function ask<T>(path: string, call: Call = {}): Promise<Answer<T>> {
  const response = await send(path, call);
  const text = await response.text();
  return { data: (text ? JSON.parse(text) : undefined) as T, etag: response.headers.get("ETag") };
}

export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

/** Reads server-sent events until the stream ends or `signal` says so. */
export async function stream(path: string, signal: AbortSignal, each: (event: StreamEvent) => void): Promise<void> {
  const response = await send(path, { accept: "text/event-stream", signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = parse(rest.slice(0, end));
      rest = rest.slice(end + 2);
      if (event) each(event);
    }
  }
}

/** One event of a stream (the HTML standard, §9.2.6); `undefined` for a comment. */
function parse(block: string): StreamEvent | undefined {
  const event: StreamEvent = { id: "", event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "data") data.push(value);
    else if (name === "id") event.id = value;
    else if (name === "event") event.event = value;
  }
  if (!data.length) return undefined;
  event.data = data.join("\n");
  return event;
}
