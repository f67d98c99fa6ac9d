import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass } from "./rig.js";

const PHONE = { width: 375, height: 700 };

inBrowser("evaluations, schedules and deliveries", () => {
  const server = new Windlass([], "tests.web.measured");
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("two experiments are compared case by case, and a failed case leads to its trace", async () => {
    const { page, faults } = await openPage(server.url, "/experiments");
    const list = page.getByRole("grid", { name: "Experiments" });
    await list.getByText("prices-old").waitFor();
    await list.getByText("62.5 %").waitFor();
    await page.screenshot({ path: `${SHOTS}/experiments.png` });
    await list.getByRole("checkbox", { name: "Choose all rows" }).check();
    await page.getByRole("link", { name: "Compare the two" }).click();
    await page.waitForURL(/\/experiments\/prices-new\?against=prices-old$/u);
    const verdict = page.getByRole("region", { name: "Verdict" });
    await verdict.getByText("unclear").waitFor();
    await verdict.getByText(/8 cases of both are too few/u).waitFor();
    const pairs = page.getByRole("grid", { name: "Cases of both" });
    expect(await pairs.getByRole("row").nth(1).innerText()).toMatch(/vienna[^]*broken/u);
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/experiments-compared.png` });
    await page.getByRole("button", { name: /^Fixed 3/u }).click();
    await expect.poll(() => pairs.getByRole("row").count()).toBe(4);
    expect(page.url()).toContain("show=fixed");
    await page.getByLabel("Compare with").selectOption("");
    const cases = page.getByRole("grid", { name: "Cases", exact: true });
    await page.getByRole("definition").getByText("87.5 %", { exact: true }).waitFor();
    expect(await cases.getByRole("row").nth(1).innerText()).toMatch(/failed\s*vienna/u);
    await cases.getByRole("row").nth(1).press("Enter");
    const panel = page.getByRole("complementary", { name: "Case" });
    await panel.getByText("A room in Vienna is 80 crowns.").first().waitFor();
    await panel.getByText(/^expected 'A room in Vienna/u).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/experiment.png` });
    await cases.getByRole("row").nth(1).getByRole("link", { name: "Trace" }).click();
    await page.waitForURL(/\/runs\/prices-new.*vienna/u);
    await page.getByRole("treeitem").first().waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a run becomes a case of a data set, which is edited, downloaded and emptied", async () => {
    const { page, faults } = await openPage(server.url, "/runs/prices-new%2Fvienna%2F1");
    await page.getByRole("button", { name: "Add to data set" }).click();
    const dialog = page.getByRole("dialog", { name: "Add to data set" });
    await dialog.getByLabel("Data set").fill("seen");
    await expect.poll(() => dialog.getByLabel("Expected answer").inputValue()).toContain("88 crowns");
    await dialog.getByLabel("Expected answer").fill("A room in Vienna is 80 crowns.");
    await dialog.getByLabel(/^Tags/u).fill("wrong, price");
    expect(await flaws(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Add 1 case" }).click();
    await page.getByText("Added 1 case to the data set seen.").waitFor();
    await page.goto(`${server.url}/experiments?view=datasets`);
    await page.getByRole("grid", { name: "Data sets" }).getByText("prices").first().waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.getByRole("grid", { name: "Data sets" }).getByRole("link", { name: "seen" }).click();
    await page.getByRole("grid", { name: "Cases" }).getByText("What is a room in Vienna?").click();
    const form = page.getByRole("complementary", { name: "Case" });
    expect(await form.getByLabel("Expected answer").inputValue()).toBe("A room in Vienna is 80 crowns.");
    await form.getByLabel("Expected answer").fill("80 crowns");
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("grid", { name: "Cases" }).getByText("80 crowns", { exact: true }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/dataset.png` });
    const file = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    expect((await file).suggestedFilename()).toBe("seen.yaml");
    await form.getByRole("button", { name: "Remove the case" }).click();
    await page.getByText("The data set has no cases yet.").waitFor();
    await page.getByText("windlass eval datasets add seen --run RUN").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a schedule is paused, resumed and run at once", async () => {
    const { page, faults } = await openPage(server.url, "/schedules");
    const list = page.getByRole("grid", { name: "Schedules" });
    await list.getByText("at 03:00, Monday to Friday").waitFor();
    await list.getByText("nightly").click();
    const panel = page.getByRole("complementary", { name: "Schedule" });
    await panel.getByText("Next ticks").waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/schedules.png` });
    await panel.getByRole("button", { name: "Pause" }).click();
    await list.getByText("paused").waitFor();
    await panel.getByText("None while it is paused.").waitFor();
    await panel.getByRole("button", { name: "Resume" }).click();
    await expect.poll(() => list.getByText("paused").count()).toBe(0);
    await panel.getByRole("button", { name: "Run now" }).click();
    await page.waitForURL(/\/runs\/schedule%3Anightly/u);
    await page.getByRole("treeitem").first().waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a dead letter says why it was not taken, and is removed; on a phone, in the dark", async () => {
    const options = { viewport: PHONE, hasTouch: true, colorScheme: "dark" } as const;
    const { page, faults } = await openPage(server.url, "/schedules?view=deliveries", options);
    await page.getByText("HTTP 503: the receiver is being repaired").waitFor();
    for (const [path, text] of [
      ["/experiments", "prices-old"],
      ["/experiments/prices-old", "rome"],
      ["/experiments/prices-new?against=prices-old", "broken"],
      ["/datasets/prices?case=oslo", "Inputs"],
      ["/schedules?schedule=mail", "Last ticks"],
      ["/schedules?view=deliveries", "run.completed"],
    ] as const) {
      await page.goto(server.url + path);
      await page.getByText(text).filter({ visible: true }).first().waitFor();
      expect(await flaws(page), path).toEqual([]);
      await page.screenshot({ path: `${SHOTS}/phone${path.replaceAll(/\W+/gu, "-")}.png` });
    }
    await page.getByText("run.completed").click();
    const panel = page.getByRole("complementary", { name: "Delivery" });
    await panel.getByText("HTTP 503: the receiver is being repaired").waitFor();
    expect(await flaws(page)).toEqual([]);
    await panel.getByRole("button", { name: "Remove the delivery to ops" }).click();
    await page.getByText("There are no dead letters.").waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
