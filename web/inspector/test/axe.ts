/** Accessibility violations of a page, found by axe. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The rules that depend on the colour scheme. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];

/** Violations in light, and those of the colour rules in dark: a scheme changes nothing but colours. */
export async function flawsInBothSchemes(page: Page): Promise<readonly string[]> {
  const light = await flaws(page);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await flaws(page, { runOnly: COLOUR_RULES });
  await page.emulateMedia({ colorScheme: "light" });
  return [...light, ...dark.map((one) => `dark: ${one}`)];
}

/** Violations with their elements, and whether the page is wider than the screen. */
export async function flaws(page: Page, options: object = {}): Promise<readonly string[]> {
  // Injected by the test, past the content security policy, which allows only scripts of the server.
  if (await page.evaluate(() => !("axe" in globalThis))) await page.evaluate(AXE);
  return page.evaluate(async (given) => {
    const { axe } = globalThis as unknown as {
      axe: { run: (options: object) => Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    const found = (await axe.run({ resultTypes: ["violations"], ...given })).violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map(({ html }) => html.slice(0, 200))
          .join(" ")}`,
    );
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth > clientWidth
      ? [...found, `${scrollWidth} pixels are more than the ${clientWidth} of the screen`]
      : found;
  }, options);
}
