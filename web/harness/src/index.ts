/** Pure rules of Windlass in TypeScript; the shared cases hold them to the Python ones. */
export * from "./budget.js";
export * from "./completion.js";
export * from "./policy.js";
export * from "./redact.js";
export * from "./retry.js";
export * from "./shell/index.js";
export * from "./tracing.js";
