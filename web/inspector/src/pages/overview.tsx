import type { ReactNode } from "react";
export function OverviewPage(): ReactNode { return null; }
