import type { ReactNode } from "react";
export function RunPage(_: { readonly runId: string }): ReactNode { return null; }
