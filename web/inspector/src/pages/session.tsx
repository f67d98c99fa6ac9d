import type { ReactNode } from "react";
export function SessionPage(_: { readonly sessionId: string }): ReactNode { return null; }
