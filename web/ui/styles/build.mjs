/**
 * Writes `styles.css`: everything that the components need, for pages without Tailwind.
 *
 * The resets of Tailwind hold only inside of `.agent-ui`, so that the page around the components stays as it is.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "tailwindcss";

const HERE = new URL("./", import.meta.url);
const DIST = new URL("../dist/", HERE);
const read = (name) => readFileSync(new URL(name, HERE), "utf8");

/** The resets of Tailwind, nested into an element of ours. */
function resets() {
  const sheet = readFileSync(fileURLToPath(import.meta.resolve("tailwindcss/preflight.css")), "utf8");
  const page = ".agent-ui {\nbackground-color: var(--agent-bg);\ncolor: var(--agent-text);\n}";
  return `@layer base {\n${page}\n.agent-ui {\n${sheet.replaceAll(/^html,\n:host/gmu, "&")}\n}\n}`;
}

/** The style sheet for the classes that the built components name. */
export async function styles() {
  const source = [
    "@layer theme, base, components, utilities;",
    '@import "tailwindcss/theme.css" layer(theme);',
    '@import "tailwindcss/utilities.css" layer(utilities);',
    resets(),
    read("preset.css").replace('@source "../dist";', ""),
    read("scale.css"),
  ].join("\n");
  const loadStylesheet = async (id, base) => {
    const path = fileURLToPath(import.meta.resolve(id));
    return { path, base, content: readFileSync(path, "utf8") };
  };
  const sheet = await compile(source, { base: fileURLToPath(HERE), loadStylesheet });
  const names = readdirSync(DIST).filter((name) => name.endsWith(".js"));
  const words = names.flatMap((name) => readFileSync(new URL(name, DIST), "utf8").match(/[^\s"'`]+/gu) ?? []);
  return sheet.build([...new Set(words)]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(new URL("styles.css", DIST), await styles());
