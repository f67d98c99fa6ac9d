import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass } from "./rig.js";

const PHONE = { width: 390, height: 760 };

inBrowser("the playground", () => {
  const server = new Windlass();
  let runId = "";
  beforeAll(async () => {
    await server.start();
    ({ runId } = await server.run("demo", "Use weather in Oslo."));
  });
  afterAll(() => server.end());

  it("is opened from a model call of a trace, changes its prompt, and shows both answers", async () => {
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    await page.getByRole("treeitem", { name: /Model call 2/u }).click();
    await page.getByRole("link", { name: "Open in playground" }).click();
    await page.getByRole("heading", { name: "Playground" }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/playground/${runId}/1`);
    const [recorded, fresh] = ["Recorded", "New"].map((name) => page.getByRole("region", { name, exact: true }));
    expect(await page.getByLabel("Instructions").inputValue()).toBe("Help, with the tools that you are given.");

    const result = page.getByLabel("Message 3: Result of weather");
    expect(await result.inputValue()).toBe("Rain all day in Oslo, 9 degrees.");
    await result.fill("Sun all day in Oslo, 21 degrees.");
    await page.getByText("1 change", { exact: true }).waitFor();
    await page.keyboard.press("Control+Enter");
    await fresh?.locator("ins", { hasText: "Sun" }).waitFor();
    await recorded?.locator("del", { hasText: "Rain" }).waitFor();
    await fresh?.getByText("completed", { exact: true }).waitFor();
    await page.getByRole("row", { name: /^Tokens out/u }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/playground.png` });

    await page.reload();
    await fresh?.locator("ins", { hasText: "Sun" }).waitFor();
    expect(await result.inputValue(), "a reload keeps the changes").toBe("Sun all day in Oslo, 21 degrees.");
    await page.getByRole("button", { name: "As recorded" }).click();
    expect(await result.inputValue()).toBe("Rain all day in Oslo, 9 degrees.");
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("keeps several attempts, answers calls from the record, and saves a case", async () => {
    const { page, faults } = await openPage(server.url, `/playground/${runId}/0`, { colorScheme: "dark" });
    const fresh = page.getByRole("region", { name: "New", exact: true });
    await page.getByLabel("Run", { exact: true }).selectOption("run");
    await page.getByLabel("Instructions").fill("Help briefly.");
    await page.getByRole("button", { name: /Run it again/u }).click();
    await fresh.getByText("weather says: Rain all day in Oslo, 9 degrees.").waitFor();

    await page.getByRole("switch", { name: "weather" }).click();
    await page.getByRole("button", { name: /Run it again/u }).click();
    await page.getByRole("button", { name: "Attempt 2", pressed: true }).waitFor();
    await fresh.getByText("I am a demo without a model behind it.").waitFor();
    await page.getByRole("button", { name: "Attempt 1" }).click();
    await fresh.getByText("weather says: Rain all day in Oslo, 9 degrees.").waitFor();
    const weather = page.getByRole("switch", { name: "weather" });
    expect(await weather.isChecked()).toBe(false);
    await page.getByRole("button", { name: "Take its prompt" }).click();
    expect(await weather.isChecked()).toBe(true);
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/playground-dark.png` });

    await page.getByRole("button", { name: "Save as a case" }).click();
    const dialog = page.getByRole("dialog", { name: "Save as a case" });
    await dialog.getByLabel("Data set").fill("weather");
    await dialog.getByLabel("Expected answer").fill("Rain, 9 degrees.");
    expect(await flaws(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Add 1 case" }).click();
    await page.getByText("Added 1 case to the data set weather.").waitFor();
    const answer = await fetch(`${server.url}/v1/datasets/weather`);
    const { cases } = (await answer.json()) as { cases: { inputs: string; expected: string; runId: string }[] };
    expect(cases.map(({ inputs, expected, runId: from }) => [inputs, expected, from])).toEqual([
      ["Use weather in Oslo.", "Rain, 9 degrees.", runId],
    ]);
    await page.getByRole("link", { name: "Trace of this attempt" }).click();
    await page.getByText("playground run of").waitFor();
    await page.getByRole("link", { name: /model call 1 of run/u }).waitFor();
    await page.goto(`${server.url}/runs`);
    await page.getByRole("row").nth(1).waitFor();
    expect(await page.getByRole("row").count(), "the list leaves playground runs out").toBe(2);
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("fits a phone", async () => {
    const { page, faults } = await openPage(server.url, `/playground/${runId}/1`, { viewport: PHONE });
    await page.getByLabel("Instructions").fill("Be kind.");
    await page.getByRole("button", { name: /Run it again/u }).click();
    await page.getByRole("region", { name: "New", exact: true }).getByText("completed", { exact: true }).waitFor();
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/playground-phone.png` });
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
