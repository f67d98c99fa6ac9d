import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, it } from "vitest";
import { inBrowser, openPage, Windlass } from "./rig.js";

const FOLDER = fileURLToPath(new URL("../../../docs/images", import.meta.url));
const SIZE = { width: 1_440, height: 860 };
const PHONE = { width: 390, height: 720 };

/** A request that waits, as far as the pictures need it. */
interface Waiting {
  readonly request: { readonly requestId: string; readonly kind: string; readonly action: { readonly input: object } };
}

/** Not a test: draws the pictures of the documentation, when asked to. The desk of a shop has worked for two days. */
inBrowser("pictures for the documentation", () => {
  const server = new Windlass([], "tests.web.shop");
  const other = new Windlass([], "tests.web.improving");
  const measured = new Windlass([], "tests.web.measured");
  const paths: [name: string, path: string, text: RegExp | string][] = [];
  /** Answers the request of a kind about an order, as soon as it is there. */
  const answer = async (kind: string, order: number, given: object): Promise<void> => {
    for (;;) {
      const { requests } = await server.get<{ requests: Waiting[] }>("/approvals");
      const found = requests.find(
        ({ request }) => request.kind === kind && (request.action.input as { order?: number }).order === order,
      );
      if (found !== undefined) {
        await server.post(`/approvals/${encodeURIComponent(found.request.requestId)}`, given);
        return;
      }
    }
  };
  beforeAll(async () => {
    if (process.env["SCREENSHOTS"] === undefined) return;
    await server.start();
    const refund = await server.run("desk", "Refund order 1042, the lamp arrived broken");
    await answer("approval", 1042, { optionId: "approve" });
    const open = await server.run("desk", "Refund order 771, it never arrived");
    await answer("approval", 771, { optionId: "approve" });
    for (const { runId } of [refund, open]) {
      const begun = `${server.api}/runs/${runId}/events?format=ndjson&follow=false`;
      while (!/"action\.started".*"refund"/u.test(await (await fetch(begun)).text()));
    }
    await server.restart();
    await answer("recovery", 1042, { optionId: "retry", text: "The provider shows no refund." });
    await server.run("desk", "Change the address of order 12");
    const waiting = await server.run("desk", "Cancel my subscription");
    const parcel = await server.run("desk", "Where is my parcel 77-12?");
    await other.start();
    for (const name of ["Ada", "Bob", "Eve"])
      await other.run("clerk", `Where is the parcel of ${name}`, { goal: "parcels" });
    const { proposalId } = await other.post("/proposals", { goal: "parcels", agent: "clerk" });
    await other.until(`/proposals/${proposalId ?? ""}`, 200);
    await other.post(`/proposals/${proposalId ?? ""}/check`, {});
    await measured.start();
    mkdirSync(FOLDER, { recursive: true });
    const status = async (): Promise<string> =>
      (await server.get<{ run: { status: string } }>(`/runs/${refund.runId}`)).run.status;
    while ((await status()) !== "completed");
    paths.push(
      ["chat", `/chat/${waiting.sessionId}`, "Approve cancel_subscription?"],
      ["approvals", "/approvals", "Asked by"],
      ["runs", "/runs", /Cancel my subscription/u],
      ["sessions", "/sessions", /Cancel my subscription/u],
      ["run", `/runs/${refund.runId}?span=`, "17 spans"],
      ["trace", `/runs/${refund.runId}?at=5`, "17 spans"],
      ["decisions", `/decisions?run=${refund.runId}`, "call refund"],
      ["versions", "/decisions?view=versions&agent=desk", "Tokens of a run"],
      ["overview", "/overview", "Tools by failure rate"],
      ["playground", `/playground/${parcel.runId}/1`, "Recorded"],
    );
  });
  afterAll(() => Promise.all([server.end(), other.end(), measured.end()]));

  it.skipIf(process.env["SCREENSHOTS"] === undefined)("are drawn", async () => {
    const { page: own } = await openPage(server.url, "/chat", { viewport: SIZE });
    for (const [name, path, text] of paths) {
      await own.goto(server.url + path);
      await own.getByText(text).filter({ visible: true }).first().waitFor();
      if (name === "run") {
        await own.getByRole("treeitem", { name: /^tool refund/u }).click();
        await own.getByText("Attempt 2 began").waitFor();
      }
      if (name === "playground") {
        await own.getByLabel("Message 3: Result of ship_status").fill("the carrier answered 503");
        await own.keyboard.press("Control+Enter");
        await own.getByText("completed", { exact: true }).waitFor();
      }
      await own.screenshot({ path: `${FOLDER}/${name}.png`, animations: "disabled" });
    }
    await own.context().close();
    const compared = "/experiments/prices-new?against=prices-old";
    const { page: experiments } = await openPage(measured.url, compared, { viewport: SIZE });
    await experiments.getByText("broken", { exact: true }).waitFor();
    await experiments.screenshot({ path: `${FOLDER}/experiments.png`, animations: "disabled" });
    await experiments.context().close();
    const { page: proposals } = await openPage(other.url, "/decisions?view=proposals", { viewport: SIZE });
    await proposals.getByRole("link", { name: /\d fixed/u }).waitFor();
    await proposals.screenshot({ path: `${FOLDER}/proposal.png`, animations: "disabled" });
    await proposals.context().close();
    const { page } = await openPage(server.url, paths[0]?.[1] ?? "/", { viewport: PHONE, colorScheme: "dark" });
    await page.getByText("Approve cancel_subscription?").first().waitFor();
    await page.screenshot({ path: `${FOLDER}/phone.png`, animations: "disabled" });
    await page.context().close();
  });
});
