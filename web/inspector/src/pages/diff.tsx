import type { ReactNode } from "react";
export function DiffPage(_: { readonly first: string | undefined; readonly second: string | undefined }): ReactNode { return null; }
