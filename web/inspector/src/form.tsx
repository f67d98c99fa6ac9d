/** Fields, forms and buttons: a field gives its text, a button does one thing at a time. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { Button, classes, Dialog, FIELD, type ButtonProps } from "@windlass/ui";
import { useCallback, useId, useState, type ComponentProps, type ReactNode } from "react";
import { Failure, SMALL_FIELD } from "./parts.js";
import { agentsQuery } from "./queries.js";

/** The properties of an element that holds a text. */
type Holding<Tag extends "input" | "textarea"> = Omit<ComponentProps<Tag>, "value" | "onChange"> & {
  readonly value: string | number;
  readonly onChange: (text: string) => void;
};

/** A field of one line, without a label. */
export function Input({ onChange, ...rest }: Holding<"input">): ReactNode {
  return (
    <input
      className={FIELD}
      onChange={(event) => {
        onChange(event.target.value);
      }}
      {...rest}
    />
  );
}

/** A field of several lines, without a label. */
export function Area({ onChange, ...rest }: Holding<"textarea">): ReactNode {
  return (
    <textarea
      className={FIELD}
      onChange={(event) => {
        onChange(event.target.value);
      }}
      {...rest}
    />
  );
}

/** A field with its label above it, and what belongs to it below. */
export function Field({ label, children, ...rest }: Holding<"input"> & { readonly label: string }): ReactNode {
  return (
    <label className="flex flex-col gap-1">
      {label}
      <Input {...rest} />
      {children}
    </label>
  );
}

/** The same for several lines. */
export function AreaField({ label, children, ...rest }: Holding<"textarea"> & { readonly label: string }): ReactNode {
  return (
    <label className="flex flex-col gap-1">
      {label}
      <Area {...rest} />
      {children}
    </label>
  );
}

/** A field that finds rows; its label is its placeholder. */
export function SearchField({ label, ...rest }: Holding<"input"> & { readonly label: string }): ReactNode {
  return (
    <Input
      type="search"
      aria-label={label}
      placeholder={label}
      className={classes(FIELD, "w-56! max-sm:w-full!")}
      {...rest}
    />
  );
}

/** Tags in a field, with commas between them. */
export function tagsIn(text: string): string[] {
  return [...new Set(text.split(",").map((tag) => tag.trim()))].filter((tag) => tag !== "");
}

/** A field for tags; `tagsIn` reads them out of its text. */
export function TagsField(props: Holding<"input">): ReactNode {
  return <Field label="Tags, with commas between them" {...props} />;
}

const NOTE_CHARS_MAX = 4_000;

/** A field for why something is judged as it is. */
export function NoteField(props: Holding<"textarea">): ReactNode {
  return <AreaField label="Note" rows={3} maxLength={NOTE_CHARS_MAX} {...props} />;
}

/** A form that the page sends, and not the browser. */
export function Form({ onSend, ...rest }: ComponentProps<"form"> & { readonly onSend: () => void }): ReactNode {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
      {...rest}
    />
  );
}

interface SelectProps<V extends string> {
  readonly label: string;
  /** Whether its first choice says what it is for. */
  readonly isLabelHidden?: boolean | undefined;
  readonly value: NoInfer<V> | undefined;
  /** What can be chosen; an empty word is the choice of nothing. */
  readonly options: readonly (readonly [value: V, label: string])[];
  readonly onChange: (value: "" extends V ? Exclude<V, ""> | undefined : V) => void;
}

/** A choice of few things. The browser's own, so that phones and screen readers know it. */
export function Select<V extends string>(props: SelectProps<V>): ReactNode {
  const { label, isLabelHidden = false, value = "", options, onChange } = props;
  const id = useId();
  return (
    <span className="inline-flex items-center gap-2 text-xs text-agent-muted">
      <label htmlFor={id} className={isLabelHidden ? "sr-only" : undefined}>
        {label}
      </label>
      <select
        id={id}
        className={isLabelHidden ? classes(FIELD, "w-28!") : classes(SMALL_FIELD, "max-w-44")}
        value={value}
        onChange={(event) => {
          onChange((event.target.value || undefined) as Parameters<typeof onChange>[0]);
        }}
      >
        {options.map(([choice, text]) => (
          <option key={choice} value={choice}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}

/** Words as choices, after the choice of none of them. */
export function choices(none: string, options: readonly string[]): readonly (readonly [string, string])[] {
  return [["", none], ...options.map((word) => [word, word] as const)];
}

/** A choice of an agent, or of all of them. */
export function AgentSelect({
  all = "any",
  ...rest
}: Pick<SelectProps<string>, "value" | "onChange"> & { readonly all?: string }): ReactNode {
  const { data = [] } = useQuery(agentsQuery);
  const ids = data.map(({ agentId }) => agentId);
  return <Select label="Agent" options={choices(all, ids)} {...rest} />;
}

/** Whether something is open, and how to open and close it. */
export function useOpen(): readonly [isOpen: boolean, open: () => void, close: () => void] {
  const [isOpen, setIsOpen] = useState(false);
  const open = useCallback(() => {
    setIsOpen(true);
  }, []);
  const close = useCallback(() => {
    setIsOpen(false);
  }, []);
  return [isOpen, open, close];
}

interface ActProps<T> extends Omit<ButtonProps, "value"> {
  /** What it does, as `useMutation` returns it. */
  readonly act: { readonly mutate: (value: T) => void; readonly isPending: boolean };
  /** What it is done with. */
  readonly value?: T;
}

/** A button that does something on the server; it waits until that is done. */
export function Act<T = void>({ act, value, disabled = false, ...rest }: ActProps<T>): ReactNode {
  return (
    <Button
      disabled={disabled || act.isPending}
      onClick={() => {
        act.mutate(value as T);
      }}
      {...rest}
    />
  );
}

/** Gives a text to the browser to keep as a file. */
export function download(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

interface SaveButtonProps {
  readonly label: string;
  readonly title?: string | undefined;
  readonly file: () => Promise<Readonly<Record<"text" | "name" | "type", string>>>;
}

/** Gives a text that the server writes to the browser to keep as a file. */
export function SaveButton({ label, title, file }: SaveButtonProps): ReactNode {
  const save = useMutation({
    mutationFn: async () => {
      const { text, name, type } = await file();
      download(text, name, type);
    },
  });
  return (
    <>
      <Act act={save} title={title}>
        {label}
      </Act>
      {save.error !== null && <Failure error={save.error} />}
    </>
  );
}

interface DeleteButtonProps {
  readonly label?: string;
  /** The question. */
  readonly title: string;
  readonly onDelete: () => Promise<void>;
  /** The consequences. */
  readonly children: ReactNode;
}

/** Deletes something after a question, or says why it could not. */
export function DeleteButton({ label = "Delete", title, onDelete, children }: DeleteButtonProps): ReactNode {
  const [isAsking, ask, close] = useOpen();
  const remove = useMutation({ mutationFn: onDelete, onSettled: close });
  return (
    <>
      <Button variant="danger" onClick={ask}>
        {label}
      </Button>
      {remove.error !== null && <Failure error={remove.error} />}
      <Dialog title={title} isOpen={isAsking} onClose={close}>
        <div className="flex flex-col gap-2 text-agent-muted">{children}</div>
        <div className="flex justify-end gap-2">
          <Button onClick={close}>Keep it</Button>
          <Act act={remove} variant="danger">
            Delete for good
          </Act>
        </div>
      </Dialog>
    </>
  );
}
