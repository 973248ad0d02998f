// What the JSON schema of the configuration has at a place of a text in YAML.
//
// The place is found by indentation, which is how configurations are written; inside `{ … }` on one line nothing is
// offered. Only what completion needs of JSON Schema is read: properties, references, alternatives, lists, words.

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  type?: string | string[];
  description?: string;
}

export interface Choice {
  word: string;
  about: string;
  insert: string;
}

/** Alternatives and references that are followed at most for one place. */
const STEPS = 400;

/** All alternatives of a schema, references followed. */
function forms(root: Schema, schema: Schema | boolean | undefined): Schema[] {
  const found: Schema[] = [];
  const seen = new Set<Schema>();
  const queue: (Schema | boolean | undefined)[] = [schema];
  for (let step = 0; queue.length && step < STEPS; step++) {
    const one = queue.pop();
    if (!one || typeof one === "boolean" || seen.has(one)) continue;
    seen.add(one);
    found.push(one);
    if (one.$ref) queue.push(resolve(root, one.$ref));
    queue.push(...(one.anyOf ?? []), ...(one.oneOf ?? []), ...(one.allOf ?? []));
  }
  return found;
}

function resolve(root: Schema, reference: string): Schema | undefined {
  let now: unknown = root;
  for (const part of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
    now = (now as Record<string, unknown> | undefined)?.[part.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return now as Schema | undefined;
}

/** Below a key of a map, or (`-`) in a list. */
function below(root: Schema, all: Schema[], key: string): Schema[] {
  const next = all.flatMap((schema) => {
    if (key === "-") return forms(root, schema.items);
    const own = schema.properties?.[key];
    return forms(root, own ?? schema.additionalProperties);
  });
  return next;
}

/** The keys that lead to a line, outermost first. */
function pathOf(lines: string[], indent: number): string[] {
  const path: string[] = [];
  let limit = indent;
  for (let index = lines.length - 1; index >= 0 && limit >= 0; index--) {
    const line = lines[index] ?? "";
    if (!line.trim() || line.trim().startsWith("#")) continue;
    const found = /^( *)((?:- +)*)(?:(["']?)([^"':#{}[\]]+?)\3:(?:\s|$))?/.exec(line);
    if (!found) continue;
    const [, spaces = "", dashes = "", , key] = found;
    const inner = spaces.length + dashes.length;
    if (key !== undefined && inner < limit) {
      path.unshift(key);
      limit = inner;
    }
    if (dashes && spaces.length < limit) {
      path.unshift("-");
      limit = spaces.length;
    } else if (dashes && spaces.length + 2 === limit) {
      path.unshift("-");
      limit = spaces.length;
    }
    if (limit === 0 && !dashes) break;
  }
  return path;
}

/** What may stand at the cursor, and how much of it is typed already. */
export function choices(root: Schema, text: string, cursor: number): { all: Choice[]; typed: string } | undefined {
  const before = text.slice(0, cursor).split("\n");
  const line = before.pop() ?? "";
  const value = /^( *)((?:- +)*)([\w.-]+):\s+([\w.-]*)$/.exec(line);
  const key = /^( *)((?:- +)*)([\w.-]*)$/.exec(line);
  const [, spaces = "", dashes = "", word = "", part] = value ?? key ?? [];
  if (!value && !key) return undefined;
  let all = forms(root, root);
  const path = pathOf(before, spaces.length + (dashes ? 0 : 0));
  for (const step of path) all = below(root, all, step);
  if (dashes) all = below(root, all, "-");
  if (value) {
    const words = below(root, all, word).flatMap((schema) => [...(schema.enum ?? []), ...(schema.const === undefined ? [] : [schema.const]), ...(schema.type === "boolean" ? [true, false] : [])]);
    const typed = part ?? "";
    const fit = [...new Set(words.map(String))].filter((one) => one.startsWith(typed));
    return { typed, all: fit.map((one) => ({ word: one, about: "", insert: one })) };
  }
  const properties = new Map<string, Schema>();
  for (const schema of all) for (const [name, one] of Object.entries(schema.properties ?? {})) properties.set(name, one);
  const names = [...properties].filter(([name]) => name.startsWith(word));
  return {
    typed: word,
    all: names.map(([name, schema]) => {
      const about = schema.description ?? forms(root, schema).find((form) => form.description)?.description ?? "";
      return { word: name, about: about.split("\n")[0] ?? "", insert: `${name}: ` };
    }),
  };
}
