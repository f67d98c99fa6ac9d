/**
 * Scrolls and opens pages of an inspector in Chromium, and writes what it took as JSON.
 *
 * node benchmarks/inspector.mjs ADDRESS RUN_ID CHROMIUM SCROLL_S QUIET_MS DEEP_ROWS SLOWED: the run with the long
 * trace, the browser, how long to scroll, how long a page is quiet when it is done, the rows that are read before the
 * long list is scrolled, and how much slower the processor seems to pages that are opened.
 */
import process from "node:process";
import { chromium } from "playwright-core";

const [, , address, runId, executablePath, ...paces] = process.argv;
const [SCROLL_S, QUIET_MS, DEEP_ROWS, SLOWED] = paces.map(Number);
const VIEWPORT = { width: 1_440, height: 900 };
const LOAD_MS_MAX = 120_000;
/** Pixels a second: a hand that looks for something, and one that flies over the list. */
const SPEEDS = [4_000, 16_000];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

const sorted = (numbers) => [...numbers].sort((one, other) => one - other);
const part = (numbers, share) => numbers[Math.min(numbers.length - 1, Math.floor(numbers.length * share))] ?? 0;

/**
 * Frames while the wheel turns, there and back: the times between them, and the CPU of the main thread for one.
 *
 * Times depend on what else the machine does; CPU hardly does.
 */
async function frames(page, grid, speed) {
  const list = page.locator(grid).first();
  const box = await list.boundingBox();
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () =>
    (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1_000;
  await page.evaluate(() => {
    window.__frames = [];
    const look = (at) => {
      window.__frames.push(at);
      window.__looking = requestAnimationFrame(look);
    };
    window.__looking = requestAnimationFrame(look);
  });
  const [before, began] = [await list.evaluate((one) => one.scrollTop), await spent()];
  const place = { x: box.x + box.width / 2, y: box.y + box.height / 2, speed, gestureSourceType: "mouse" };
  await session.send("Input.synthesizeScrollGesture", { ...place, yDistance: -speed * SCROLL_S * 0.75 });
  const after = await list.evaluate((one) => one.scrollTop);
  await session.send("Input.synthesizeScrollGesture", { ...place, yDistance: speed * SCROLL_S * 0.25 });
  const cpu = (await spent()) - began;
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.__looking);
    return window.__frames;
  });
  await session.detach();
  const took = sorted(times.slice(1).map((at, index) => at - times[index]));
  return {
    frames: took.length,
    p50: part(took, 0.5),
    p95: part(took, 0.95),
    max: part(took, 1),
    cpuMs: cpu / took.length,
    movedPx: after - before,
  };
}

async function scrolled(path, grid, ready, speeds = SPEEDS, prepare = async () => {}) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  page.setDefaultTimeout(LOAD_MS_MAX);
  const began = performance.now();
  await page.goto(address + path);
  await page.locator(ready).nth(5).waitFor();
  const shownMs = performance.now() - began;
  await prepare(page);
  await page.waitForTimeout(QUIET_MS);
  const found = [];
  for (const speed of speeds) {
    await page
      .locator(grid)
      .first()
      .evaluate((one) => (one.scrollTop = 0));
    await page.waitForTimeout(500);
    found.push({ speed, ...(await frames(page, grid, speed)) });
  }
  await context.close();
  return { path, shownMs, speeds: found };
}

/** The end key, until so many rows are there. */
async function readOn(page) {
  const rows = page.locator('[role="grid"]');
  const count = async () => Number(await rows.getAttribute("aria-rowcount"));
  await page.locator('[role="row"][data-index="0"]').focus();
  while ((await count()) < DEEP_ROWS) {
    const before = await count();
    await page.keyboard.press("End");
    await page.waitForFunction(
      (known) => Number(document.querySelector('[role="grid"]')?.getAttribute("aria-rowcount")) > known,
      before,
    );
  }
}

/** When the page answers at once, counted from the start, on a processor that is slowed: the end of the last long task. */
async function interactive(path, ready) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  page.setDefaultTimeout(LOAD_MS_MAX);
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWED });
  const bytes = { before: 0, all: 0 };
  const sizes = [];
  session.on("Network.dataReceived", ({ encodedDataLength }) => sizes.push([performance.now(), encodedDataLength]));
  await page.addInitScript(() => {
    window.__long = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.__long.push([entry.startTime, entry.duration]);
    }).observe({ type: "longtask", buffered: true });
    window.__shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shift += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  const began = performance.now();
  await page.goto(address + path);
  await page.locator(ready).first().waitFor();
  const shown = performance.now();
  for (;;) {
    const left = await page.evaluate((quietMs) => {
      const ends = window.__long.map(([start, took]) => start + took);
      return quietMs - (performance.now() - Math.max(0, ...ends));
    }, QUIET_MS);
    if (left <= 0) break;
    await page.waitForTimeout(left);
  }
  const { metrics } = await session.send("Performance.getMetrics");
  const found = await page.evaluate(() => ({
    painted: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
    long: window.__long,
    shift: window.__shift,
  }));
  const last = Math.max(found.painted, ...found.long.map(([start, took]) => start + took));
  const blocked = found.long.reduce((sum, [, took]) => sum + took - 50, 0);
  for (const [at, size] of sizes) {
    bytes.all += size;
    if (at <= shown) bytes.before += size;
  }
  await context.close();
  return {
    path,
    paintedMs: found.painted,
    shownMs: shown - began,
    interactiveMs: last,
    blockedMs: blocked,
    cpuMs: (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0) * 1_000,
    shift: found.shift,
    bytesShown: bytes.before,
    bytesAll: bytes.all,
  };
}

const TREE = '[role="tree"]';
const GRID = '[role="grid"]';
const ROW = '[role="row"][data-index]';
const result = {
  interactive: [
    await interactive("/chat", "textarea"),
    await interactive("/runs", ROW),
    await interactive(`/runs/${runId}`, '[role="treeitem"]'),
    await interactive("/overview", "canvas"),
  ],
  scrolled: [
    await scrolled("/runs", GRID, ROW),
    await scrolled("/runs", GRID, ROW, [SPEEDS[1]], readOn),
    await scrolled(`/runs/${runId}`, TREE, '[role="treeitem"]'),
  ],
};
await browser.close();
process.stdout.write(`${JSON.stringify(result)}\n`);
