// Folds journals with the TypeScript twin: a list of lists of records in, what it makes of each out.
import { readFileSync } from "node:fs";
import { foldChat, foldUsage, Record, toEvent } from "../../../web/protocol/dist/index.js";

const journals = JSON.parse(readFileSync(0, "utf8"));
const folded = journals.map((records) => {
  const events = records.map((record) => toEvent(Record.parse(record)));
  const { messages, openCalls, requests } = foldChat(events);
  const { session } = foldUsage(events);
  return { messages, openCalls: [...openCalls], requests: [...requests.keys()], usage: session };
});
process.stdout.write(JSON.stringify(folded));
