import type { ReactNode } from "react";
export function DecisionsPage(): ReactNode { return null; }
