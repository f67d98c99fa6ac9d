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

/** Texts and controls that lie over one another, or stick out of the screen where nothing scrolls sideways. */
export async function strays(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const BY_PIXELS = 3;
    /** A line of text, or a control, as far as it is seen. */
    interface Seen {
      readonly element: Element;
      readonly text: string;
      readonly rect: DOMRect;
    }
    const found: string[] = [];
    const seen: Seen[] = [];
    /** Where words stand, line by line: the element around them is as wide as its place. */
    const linesOf = (element: Element): readonly DOMRect[] =>
      [...element.childNodes].flatMap((node) => {
        if (node.nodeType !== Node.TEXT_NODE || (node.textContent ?? "").trim() === "") return [];
        const range = document.createRange();
        range.selectNode(node);
        return [...range.getClientRects()];
      });
    for (const element of document.body.querySelectorAll("*")) {
      const isControl = element.matches("button, input, select, textarea");
      const rects = isControl ? [element.getBoundingClientRect()] : linesOf(element);
      const isForEars = element.closest(".sr-only") !== null || element.getBoundingClientRect().width <= 1;
      if (rects.length === 0 || isForEars || element.closest("svg, option, [aria-hidden=true]") !== null) continue;
      if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      const text = (element.textContent || (element.getAttribute("aria-label") ?? element.tagName)).trim().slice(0, 50);
      const around: Element[] = [];
      for (let one: Element | null = element; one !== null; one = one.parentElement) around.push(one);
      const clips = around.filter((one) => getComputedStyle(one).overflow !== "visible");
      const canMove = clips.some((one) => {
        const { overflowX, textOverflow } = getComputedStyle(one);
        return /auto|scroll/u.test(overflowX) ? one.scrollWidth > one.clientWidth : textOverflow === "ellipsis";
      });
      for (const { left, right, top, bottom } of rects) {
        if (!canMove && (left < -1 || right > innerWidth + 1)) found.push(`off the screen: ${text}`);
        const edges = clips.map((one) => one.getBoundingClientRect());
        const x = Math.max(left, ...edges.map((edge) => edge.left));
        const y = Math.max(top, ...edges.map((edge) => edge.top));
        const width = Math.min(right, ...edges.map((edge) => edge.right)) - x;
        const height = Math.min(bottom, ...edges.map((edge) => edge.bottom)) - y;
        if (width > BY_PIXELS && height > BY_PIXELS)
          seen.push({ element, text, rect: new DOMRect(x, y, width, height) });
      }
    }
    for (const [at, one] of seen.entries())
      for (const other of seen.slice(at + 1)) {
        const wide = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
        const high = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top);
        if (wide <= BY_PIXELS || high <= BY_PIXELS) continue;
        if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
        found.push(`over one another: ${one.text} | ${other.text}`);
      }
    return found;
  });
}
