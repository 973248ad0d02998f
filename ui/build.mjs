// Writes the files that the binary seals: `node build.mjs FOLDER`. The same input gives the same bytes.
import { build } from "esbuild";
import { cp, mkdir } from "node:fs/promises";

const folder = process.argv[2] ?? "build";
await mkdir(folder, { recursive: true });
await build({
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome109", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  outdir: folder,
  banner: { js: "/*! Thalweg, Apache-2.0 OR MIT; with Preact (MIT, (c) Jason Miller) and uPlot (MIT, (c) Leon Sorokin) */" },
  logLevel: "warning",
});
for (const file of ["index.html", "icon.svg"]) await cp(`src/${file}`, `${folder}/${file}`);
