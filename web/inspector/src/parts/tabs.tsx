import { classes, FOCUS } from "@windlass/ui";
import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";

/** One of several views of the same thing. */
export interface Tab {
  readonly id: string;
  readonly label: string;
  readonly content: () => ReactNode;
}

interface TabsProps {
  readonly tabs: readonly Tab[];
  readonly value: string;
  readonly onChange: (id: string) => void;
  readonly label: string;
}

/** Views to choose from; arrow keys go between them. Only the one that is seen is drawn. */
export function Tabs({ tabs, value, onChange, label }: TabsProps): ReactNode {
  const current = tabs.find(({ id }) => id === value) ?? tabs[0];
  return (
    <Radix.Root value={current?.id ?? ""} onValueChange={onChange} className="flex min-h-0 flex-1 flex-col">
      <Radix.List
        aria-label={label}
        className="flex gap-1 overflow-x-auto border-b border-agent-border px-3 max-sm:gap-0 max-sm:px-1"
      >
        {tabs.map(({ id, label: text }) => (
          <Radix.Trigger
            key={id}
            value={id}
            className={classes(
              "min-h-10 shrink-0 cursor-pointer border-b-2 border-transparent px-3 text-sm max-sm:px-2 whitespace-nowrap text-agent-muted data-[state=active]:border-agent-accent data-[state=active]:font-medium data-[state=active]:text-agent-text",
              FOCUS,
              // Inside: what scrolls sideways cuts off what sticks out above.
              "focus-visible:-outline-offset-2!",
            )}
          >
            {text}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map(({ id, content }) => (
        <Radix.Content key={id} value={id} tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          {content()}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
