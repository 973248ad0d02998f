// What pages show is asked for again and again: one question per second at most, whatever is on the page, and none
// while nobody looks. The most overdue question goes first. When the proxy does not answer, the pauses grow.
import { useEffect, useState } from "preact/hooks";
import { ask, ApiError } from "./api";

/** Least time between two questions, in milliseconds. */
const TICK = 1000;
/** Longest pause before a proxy that does not answer is asked again, in milliseconds. */
const PAUSE_MAX = 15_000;

export interface Live<T> {
  data?: T;
  etag?: string | null;
  error?: ApiError;
  /** When `data` came, in milliseconds of the clock that only goes forward. */
  at?: number;
}

interface Question {
  path: string;
  /** In milliseconds. */
  period: number;
  users: Set<() => void>;
  next: number;
  /** Asked for by a page that was opened just now. */
  isNew: boolean;
  answer: Live<unknown>;
}

const questions = new Map<string, Question>();
const watchers = new Set<() => void>();
let lost: { since: number; tries: number; next: number } | undefined;
let asking = false;
let timer: number | undefined;

function tell(): void {
  for (const watcher of watchers) watcher();
}

function schedule(): void {
  if (timer !== undefined || asking || document.hidden || questions.size === 0) return;
  const now = performance.now();
  if (lost) {
    timer = window.setTimeout(run, Math.max(lost.next - now, 0));
    return;
  }
  let next = Infinity;
  for (const question of questions.values()) next = Math.min(next, question.isNew ? 0 : Math.max(question.next, last + TICK));
  if (next < Infinity) timer = window.setTimeout(run, Math.max(next - now, 0));
}

/** The pause that is under way is over: there is something that cannot wait for its end. */
function hurry(): void {
  window.clearTimeout(timer);
  timer = undefined;
  schedule();
}

let last = -TICK;

function run(): void {
  timer = undefined;
  if (document.hidden) return;
  const now = performance.now();
  const fresh = [...questions.values()].filter((question) => question.isNew);
  if (fresh.length && !lost) {
    // A page that opens is no poll: all that it shows comes at once.
    asking = true;
    last = now;
    void Promise.all(fresh.map(put)).finally(done);
    return;
  }
  let chosen: Question | undefined;
  for (const question of questions.values()) {
    if (!chosen || question.next < chosen.next) chosen = question;
  }
  if (!chosen) return;
  asking = true;
  last = now;
  void put(chosen).finally(done);
}

function done(): void {
  asking = false;
  schedule();
}

async function put(question: Question): Promise<void> {
  question.isNew = false;
  try {
    const { data, etag } = await ask<unknown>(question.path);
    question.answer = { data, etag, at: performance.now() };
    found();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isLost) lose();
    // What was known stays on the page while the connection is lost.
    question.answer = { ...question.answer, error };
  }
  question.next = performance.now() + question.period;
  for (const user of question.users) user();
}

function lose(): void {
  const now = performance.now();
  const tries = (lost?.tries ?? 0) + 1;
  lost = { since: lost?.since ?? now, tries, next: now + Math.min(TICK * 2 ** (tries - 1), PAUSE_MAX) };
  tell();
}

function found(): void {
  if (!lost) return;
  lost = undefined;
  for (const question of questions.values()) question.next = 0;
  tell();
}

document.addEventListener("visibilitychange", schedule);
window.addEventListener("online", () => {
  if (lost) retry();
});

/** Asks a proxy that did not answer at once again. */
export function retry(): void {
  if (!lost) return;
  lost.next = 0;
  hurry();
}

/** Since when and how often the proxy has not answered. */
export function useLost(): { since: number; tries: number; next: number } | undefined {
  const [, turn] = useState(0);
  useEffect(() => {
    const watcher = () => turn((count) => count + 1);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return lost;
}

/** The answer to a question, asked every `period` seconds; nothing is asked for an empty path. */
export function useLive<T>(path: string, period: number): Live<T> {
  const [, turn] = useState(0);
  useEffect(() => {
    if (!path) return;
    const user = () => turn((count) => count + 1);
    let question = questions.get(path);
    if (!question) {
      question = { path, period: period * 1000, users: new Set(), next: 0, isNew: true, answer: {} };
      questions.set(path, question);
    }
    const own = question;
    own.period = Math.min(own.period, period * 1000);
    own.users.add(user);
    user();
    if (own.isNew) hurry();
    return () => {
      own.users.delete(user);
      if (own.users.size === 0) questions.delete(path);
    };
  }, [path, period]);
  return (questions.get(path)?.answer ?? {}) as Live<T>;
}

/** Something was changed: what begins with `path` is asked for again at once. */
export function refresh(...paths: string[]): void {
  for (const question of questions.values()) {
    if (paths.some((path) => question.path.startsWith(path))) question.isNew = true;
  }
  hurry();
}

/** Forgets everything, when a session ends. */
export function forget(): void {
  window.clearTimeout(timer);
  timer = undefined;
  lost = undefined;
  questions.clear();
  tell();
}
