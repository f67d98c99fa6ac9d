// Sends one request with the TypeScript client: `node writer.mjs '{"baseUrl", "token", "group", "method", "args"}'`.
import { Client } from "@windlass/protocol/client";

const { baseUrl, token, group, method, args } = JSON.parse(process.argv[2]);
const answer = new Client({ baseUrl, token })[group][method](...args);
if (Symbol.asyncIterator in answer) {
  for await (const _ of answer);
} else {
  await answer;
}
