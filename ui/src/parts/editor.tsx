// A text editor for a configuration: line numbers, mistakes at their lines, completion from the JSON schema.
import { useEffect, useRef, useState } from "preact/hooks";
import { choices, type Choice, type Schema } from "../schema";
import type { Mistake } from "../types";

const LINE = 18;

export function Editor({ text, change, mistakes, schema, readOnly }: {
  text: string;
  change: (text: string) => void;
  mistakes: Mistake[];
  schema: Schema | undefined;
  readOnly: boolean;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const [offer, setOffer] = useState<{ all: Choice[]; at: number; from: number; top: number; left: number }>();
  const lines = text.split("\n").length;
  const wrong = new Map(mistakes.map((mistake) => [mistake.line, mistake.message]));

  /** Offers what the schema has at the cursor; without `anyway` only when a word has begun. */
  const complete = (anyway: boolean) => {
    const element = area.current;
    if (!element || !schema) return;
    const cursor = element.selectionStart;
    const found = choices(schema, element.value, cursor);
    if (!found || !found.all.length || (!anyway && found.typed.length === 0) || (found.all.length === 1 && found.all[0]?.word === found.typed)) return setOffer(undefined);
    const before = element.value.slice(0, cursor).split("\n");
    const top = before.length * LINE + 8 - element.scrollTop;
    const left = Math.min((before.at(-1)?.length ?? 0) * 7.2 + 50, element.clientWidth - 260);
    setOffer({ all: found.all.slice(0, 40), at: 0, from: cursor - found.typed.length, top: Math.min(top, element.clientHeight - 120), left: Math.max(50, left) });
  };
  const take = (choice: Choice | undefined) => {
    const element = area.current;
    if (!element || !offer || !choice) return;
    element.setRangeText(choice.insert, offer.from, element.selectionStart, "end");
    setOffer(undefined);
    change(element.value);
  };
  const pressed = (event: KeyboardEvent) => {
    const element = area.current;
    if (!element) return;
    if (offer && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      return setOffer({ ...offer, at: (offer.at + step + offer.all.length) % offer.all.length });
    }
    if (offer && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      return take(offer.all[offer.at]);
    }
    if (event.key === "Escape") return setOffer(undefined);
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      return complete(true);
    }
    if (event.key === "Enter" && !event.shiftKey) {
      // The next line begins below this one.
      const line = element.value.slice(0, element.selectionStart).split("\n").at(-1) ?? "";
      const indent = `${/^[ ]*/.exec(line)?.[0] ?? ""}${/:\s*$/.test(line) ? "  " : ""}`;
      event.preventDefault();
      element.setRangeText(`\n${indent}`, element.selectionStart, element.selectionEnd, "end");
      change(element.value);
    }
  };
  useEffect(() => {
    const element = area.current;
    const first = mistakes[0];
    if (element && first && document.activeElement !== element) element.scrollTop = Math.max(0, (first.line - 6) * LINE);
  }, [mistakes[0]?.line]);
  useEffect(() => {
    if (gutter.current && area.current) gutter.current.scrollTop = area.current.scrollTop;
  });
  return (
    <div class="editor">
      <div class="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, index) => <div key={index} class={wrong.has(index + 1) ? "mistake" : ""} title={wrong.get(index + 1)}>{index + 1}</div>)}
      </div>
      <textarea
        ref={area}
        aria-label="Configuration"
        aria-invalid={mistakes.length > 0}
        spellcheck={false}
        autocapitalize="off"
        readOnly={readOnly}
        value={text}
        onInput={(event) => { change(event.currentTarget.value); complete(false); }}
        onKeyDown={pressed}
        onClick={() => setOffer(undefined)}
        onBlur={() => window.setTimeout(() => setOffer(undefined), 150)}
        onScroll={(event) => { if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop; setOffer(undefined); }}
      />
      {offer && (
        <div class="complete" role="listbox" aria-label="Completion" style={{ top: `${offer.top}px`, left: `${offer.left}px` }}>
          {offer.all.map((choice, index) => (
            <div key={choice.word} role="option" aria-selected={index === offer.at} title={choice.about} onMouseDown={(event) => { event.preventDefault(); take(choice); }}>
              <span class="mono">{choice.word}</span> <span class="dim">{choice.about}</span>
            </div>
          ))}
        </div>
      )}
    </div>
  );
}
