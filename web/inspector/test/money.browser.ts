import { afterAll, beforeAll, expect, it } from "vitest";
import { flaws } from "./axe.js";
import { inBrowser, openPage, SHOTS, Windlass } from "./rig.js";

interface Limits {
  readonly limits: readonly { readonly name: string; readonly tokensLeft?: number }[];
}

inBrowser("money and limits", () => {
  const server = new Windlass();
  beforeAll(() => server.start());
  afterAll(() => server.end());

  it("the overview says what is left of each limit, and what each model used", async () => {
    await server.post("/limits", { name: "house", per: "month", maxTokens: 2_000_000, timezone: "Europe/Berlin" });
    await server.post("/limits", { name: "each", per: "run", maxTokens: 500_000, agent: "shaky" });
    await server.run("shaky", "How is Oslo?");
    await expect
      .poll(async () => (await server.get<Limits>("/limits")).limits.find(({ name }) => name === "house")?.tokensLeft)
      .toBeLessThanOrEqual(2_000_000 - 1_280);
    const { page, faults } = await openPage(server.url, "/overview");
    const panel = page.getByRole("region", { name: "Limits: what is left" });
    const rows = panel.getByRole("listitem");
    await rows.first().waitFor();
    expect(await rows.allInnerTexts()).toEqual([
      expect.stringMatching(/^each shaky\s+500k tokens a run$/u),
      expect.stringMatching(/^house\s+2M tokens of 2M tokens$/u),
    ]);
    await page.getByTitle(/^begins anew at \d{4}-/u).waitFor();
    await page.getByLabel("Split of cost").selectOption({ label: "by model" });
    const cost = page.getByRole("slider", { name: "Cost: intervals" });
    await expect.poll(() => cost.getAttribute("aria-valuetext")).toMatch(/scripted\/scripted/u);
    expect(await flaws(page)).toEqual([]);
    await page.screenshot({ path: `${SHOTS}/limits.png` });
    expect(faults).toEqual([]);
    await page.context().close();
  });

  it("a run that a limit ended names the limit", async () => {
    await server.post("/limits", { name: "tiny", per: "run", maxTokens: 1_000, agent: "lead" });
    const { runId } = await server.run("lead", "Write.");
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    await page
      .getByText(/of 1,000 tokens of limit tiny for each run/u)
      .first()
      .waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
    await fetch(`${server.api}/limits/tiny`, { method: "DELETE" });
  });

  it("a run that waits for a batch says since when", async () => {
    const { runId } = await server.run("curious", "Ask.", { batch: "within 24h" });
    const { page, faults } = await openPage(server.url, `/runs/${runId}`);
    await page.getByText("waiting for a batch").first().waitFor();
    await page
      .getByText(/^since /u)
      .first()
      .waitFor();
    expect(faults).toEqual([]);
    await page.context().close();
  });
});
