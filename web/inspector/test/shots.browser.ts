import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

const FOLDER = fileURLToPath(new URL("../../../docs/images", import.meta.url));
const SIZE = { width: 1_200, height: 720 };
const PHONE = { width: 390, height: 720 };

/** Not a test: draws the pictures of the documentation, when asked to. */
inBrowser("pictures for the documentation", () => {
  const server = new Windlass();
  const other = new Windlass([], "tests.web.improving");
  const measured = new Windlass([], "tests.web.measured");
  const paths: [name: string, path: string, text: RegExp | string][] = [];
  beforeAll(async () => {
    if (process.env["SCREENSHOTS"] === undefined) return;
    await server.start();
    for (const message of ["Use weather.", "How is Oslo?", "Use weather once more."]) await server.run("demo", message);
    for (const city of ["Oslo", "Bergen"]) await server.run("shaky", `How is ${city}?`);
    await server.run("demo", "Pay the hotel.");
    await server.run("demo", "Pay the train.");
    const waiting = await server.run("demo", "Use weather, then pay.");
    const shaky = await server.run("shaky", "How is the station?");
    await server.run("broken", "Try.");
    await other.start();
    for (const name of ["Ada", "Bob", "Eve"])
      await other.run("clerk", `Where is the parcel of ${name}`, { goal: "parcels" });
    const { proposalId } = await other.post("/proposals", { goal: "parcels", agent: "clerk" });
    await other.until(`/proposals/${proposalId ?? ""}`, 200);
    await other.post(`/proposals/${proposalId ?? ""}/check`, {});
    await measured.start();
    mkdirSync(FOLDER, { recursive: true });
    paths.push(
      ["chat", `/chat/${waiting.sessionId}`, "Approve pay?"],
      ["approvals", "/approvals", "Asked by"],
      ["runs", "/runs", /Pay the train/u],
      ["sessions", "/sessions", /Pay the train/u],
      ["run", `/runs/${shaky.runId}?at=10`, "Call of"],
      ["trace", `/runs/${waiting.runId}?at=5`, "Model call"],
      ["decisions", `/decisions?run=${shaky.runId}`, "It failed"],
      ["overview", "/overview?range=1h", "Tools by failure rate"],
    );
  });
  afterAll(() => Promise.all([server.end(), other.end(), measured.end()]));

  it.skipIf(process.env["SCREENSHOTS"] === undefined)("are drawn", async () => {
    for (const [name, path, text] of paths) {
      const { page } = await openPage(server.url, path, { viewport: SIZE });
      await page.getByText(text).filter({ visible: true }).first().waitFor();
      await page.screenshot({ path: `${FOLDER}/${name}.png`, animations: "disabled" });
      await page.context().close();
    }
    const compared = "/experiments/prices-new?against=prices-old";
    const { page: experiments } = await openPage(measured.url, compared, { viewport: SIZE });
    await experiments.getByText("broken", { exact: true }).waitFor();
    await experiments.screenshot({ path: `${FOLDER}/experiments.png`, animations: "disabled" });
    await experiments.context().close();
    const { runId } = await server.run("demo", "Use weather in Oslo.");
    const { page: bench } = await openPage(server.url, `/playground/${runId}/1`, { viewport: SIZE });
    await bench.getByLabel("Message 3: Result of weather").fill("Sun all day in Oslo, 21 degrees.");
    await bench.keyboard.press("Control+Enter");
    await bench.getByText("completed", { exact: true }).waitFor();
    await bench.screenshot({ path: `${FOLDER}/playground.png`, animations: "disabled" });
    await bench.context().close();
    const { page: proposals } = await openPage(other.url, "/decisions?view=proposals", { viewport: SIZE });
    await proposals.getByText(/\d fixed/u).waitFor();
    await proposals.screenshot({ path: `${FOLDER}/proposal.png`, animations: "disabled" });
    await proposals.context().close();
    const { page } = await openPage(server.url, paths[0]?.[1] ?? "/", { viewport: PHONE, colorScheme: "dark" });
    await page.getByText("Approve pay?").first().waitFor();
    await page.screenshot({ path: `${FOLDER}/phone.png`, animations: "disabled" });
    await page.context().close();
  });
});
