// Where one is: the part behind `#` is a path with a query, so that links lead to a page and a filter.
import { useEffect, useState } from "preact/hooks";

export interface Place {
  /** Decoded segments: `#/services/shop` is `["services", "shop"]`. */
  path: string[];
  query: URLSearchParams;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function here(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

/** A link to a page. */
export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) all.set(name, value);
  const text = all.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path: string[], query: Record<string, string | undefined> = {}): void {
  location.hash = link(path, query);
}

/** The same page with another query, without a step in the history. */
export function replaceQuery(query: Record<string, string | undefined>): void {
  history.replaceState(null, "", link(here().path, query));
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const changed = () => setPlace(here());
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return place;
}
