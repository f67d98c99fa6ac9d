// Generated from spec/ by `make gen`. Do not edit.
export * from "./chat.js";
export * from "./common.js";
export * from "./decisions.js";
export * from "./errors.js";
export * from "./event-data.js";
export * from "./events.js";
export * from "./input.js";
export * from "./output.js";
export * from "./packages.js";
export * from "./policy.js";
export * from "./rest.js";
export * from "./rpc.js";
export * from "./runs.js";
export * from "./sessions.js";
export * from "./sidecar.js";
export * from "./tools.js";
export * from "./traces.js";
