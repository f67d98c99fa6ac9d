// Node: the types, the client and the rules are there, and work.
import * as harness from "@windlass/harness";
import { decode, ToolCall } from "@windlass/protocol";
import { Client } from "@windlass/protocol/client";

const call = decode(ToolCall, '{"id":"c1","name":"look","arguments":{}}');
if (call.name !== "look") throw new Error(`decode returned ${JSON.stringify(call)}`);
if (typeof harness.decideToolMode !== "function") throw new Error("@windlass/harness has no decideToolMode");
new Client({ baseUrl: "http://127.0.0.1:1" });
