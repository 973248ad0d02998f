// Numbers, times and words for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const NONE = "–";

/** Three significant digits, with k, M or G: 12.3k. */
export function short(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NONE;
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]] as const) {
    if (Math.abs(value) >= size) return digits(value / (unit === "k" ? 1e3 : size)) + unit;
  }
  return Math.abs(value) >= 1000 ? whole.format(value) : digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(2).replace(/0$/, "");
}

export const count = (value: number | undefined): string => (value === undefined ? NONE : whole.format(value));

/** A share as percent: 0.02 %. */
export function percent(share: number | undefined | null): string {
  if (share === undefined || share === null || !Number.isFinite(share)) return NONE;
  const value = share * 100;
  if (value === 0) return "0 %";
  if (value < 0.01) return "<0.01 %";
  const places = Number.isInteger(value) || value >= 99.95 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(places)} %`;
}

export function bytes(value: number | undefined): string {
  if (value === undefined) return NONE;
  let [size, unit] = [value, "B"];
  for (const next of ["KiB", "MiB", "GiB", "TiB"]) {
    if (size < 1024) break;
    [size, unit] = [size / 1024, next];
  }
  return `${unit === "B" ? size : digits(size)} ${unit}`;
}

/** A time from microseconds: 420 µs, 12.3 ms, 1.2 s. */
export function micros(value: number | undefined | null): string {
  if (value === undefined || value === null) return NONE;
  if (value < 1000) return `${Math.round(value)} µs`;
  if (value < 1e6) return `${digits(value / 1000)} ms`;
  return value < 60e6 ? `${digits(value / 1e6)} s` : seconds(value / 1e6);
}

export const millis = (value: number | undefined): string => micros(value === undefined ? undefined : value * 1000);

/** A span of time: 42 s, 12 min, 3 h 5 min, 2 d 4 h. */
export function seconds(value: number): string {
  const all = Math.max(0, Math.round(value));
  if (all < 60) return `${all} s`;
  if (all < 3600) return `${Math.floor(all / 60)} min`;
  const part = (large: number, unit: string, small: number, smallUnit: string) => {
    const rest = Math.floor((all % large) / small);
    return `${Math.floor(all / large)} ${unit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
  };
  return all < 86_400 ? part(3600, "h", 60, "min") : part(86_400, "d", 3600, "h");
}

export const ago = (time: string): string => `${seconds((Date.now() - Date.parse(time)) / 1000)} ago`;

/** The time of the day; with the day when it is not of the last hours. */
export function moment(time: string | number): string {
  const at = typeof time === "number" ? time * 1000 : Date.parse(time);
  return Math.abs(Date.now() - at) < 12 * 3600_000 ? clock.format(at) : day.format(at);
}

/** `slow_start` as `slow start`. */
export const words = (text: string): string => text.replaceAll("_", " ");
