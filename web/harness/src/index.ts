/**
 * Parity facade of the Windlass harness: the shared cases in `conformance/cases/` hold it to the Python original.
 *
 * Production code asks a server or a sidecar instead of importing this package.
 */
export * from "./budget.js";
export * from "./completion.js";
export * from "./policy.js";
export * from "./retry.js";
export * from "./shell.js";
