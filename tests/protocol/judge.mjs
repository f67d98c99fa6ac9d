// Reads lines of [type, value] and writes a JSON array that says which values fit their types.
import { createInterface } from "node:readline";
import { stdin, stdout } from "node:process";
import * as protocol from "../../web/protocol/dist/index.js";

const verdicts = [];
for await (const line of createInterface({ input: stdin })) {
  const [type, value] = JSON.parse(line);
  verdicts.push(protocol[type].safeParse(value).success);
}
stdout.write(JSON.stringify(verdicts));
