/** Data sets beside other pages: adding runs as cases, and texts of inputs and answers. */
import { useMutation, useQuery } from "@tanstack/react-query";
import type { JsonValue } from "@windlass/protocol";
import type { NewDatasetCase } from "@windlass/protocol/client";
import { Button, Dialog, formatValue, plural } from "@windlass/ui";
import { useId, useState, type ReactNode } from "react";
import { client } from "./auth.js";
import { AreaField, Field, Form, TagsField, tagsIn, useOpen } from "./form.js";
import { Failure } from "./parts.js";
import { datasetsQuery, runQuery, useRefresh } from "./queries.js";
import { tellDone } from "./shell.js";

/** Inputs or an expected answer as one text: a message as it is, a conversation line by line, the rest as JSON. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "object" && "conversation" in value && Array.isArray(value.conversation))
    return value.conversation.map(String).join("\n");
  return formatValue(value);
}

/** An expected answer from a field: data stays data if it was data before, and nothing is no answer. */
export function expectedIn(text: string, before: unknown): JsonValue {
  if (text.trim() === "") return null;
  if (before === undefined || before === null || typeof before === "string") return text;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text;
  }
}

interface AddProps {
  readonly runIds: readonly string[];
  readonly label?: string | undefined;
  /** What is expected, if it is known already; otherwise the answer of the run. */
  readonly expected?: string | undefined;
  /** What else the case has; its inputs are those of the run otherwise. */
  readonly more?: Pick<NewDatasetCase, "name" | "inputs"> | undefined;
}

/** A button that adds runs to a data set, after it asked to which one. */
export function AddToDataset({ runIds, label = "Add to data set", expected, more }: AddProps): ReactNode {
  const [isOpen, open, close] = useOpen();
  return (
    <>
      <Button onClick={open}>{label}</Button>
      <Dialog title={label} isOpen={isOpen} onClose={close}>
        {isOpen && <AddForm runIds={runIds} expected={expected} more={more} onDone={close} />}
      </Dialog>
    </>
  );
}

function AddForm(props: Omit<AddProps, "label"> & { readonly onDone: () => void }): ReactNode {
  const { runIds, expected, onDone } = props;
  const list = useId();
  const { data: datasets } = useQuery(datasetsQuery);
  const [only] = runIds.length === 1 ? runIds : [];
  const { data: run } = useQuery({ ...runQuery(only ?? ""), enabled: only !== undefined && expected === undefined });
  const names = datasets?.datasets.map(({ name }) => name) ?? [];
  const [name, setName] = useState<string>();
  const [tags, setTags] = useState("");
  const [answer, setAnswer] = useState<string>();
  const before = run?.result?.structuredOutput ?? run?.result?.output ?? expected;
  const chosen = (name ?? names[0] ?? "").trim();
  // Several runs have their own answers, and so has one whose answer was not changed.
  const isOwn = only === undefined || (answer === undefined && expected === undefined);
  const add = useAdd(chosen, props, {
    ...props.more,
    ...(tagsIn(tags).length > 0 && { tags: tagsIn(tags) }),
    ...(!isOwn && { expected: expectedIn(answer ?? expected ?? "", before) }),
  });
  const send = (): void => {
    if (chosen !== "") add.mutate();
  };
  return (
    <Form className="flex flex-col gap-3 text-sm" onSend={send}>
      <Field
        label="Data set"
        list={list}
        required
        maxLength={200}
        placeholder="A new name makes a new one"
        value={name ?? names[0] ?? ""}
        onChange={setName}
      >
        <datalist id={list}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </Field>
      {only !== undefined && (
        <AreaField label={EXPECTED} rows={4} placeholder={NONE} value={answer ?? textOf(before)} onChange={setAnswer}>
          <span className="text-xs text-agent-muted">
            That of the run. Correct it if it is wrong: the next experiment expects what stands here.
          </span>
        </AreaField>
      )}
      <TagsField value={tags} onChange={setTags} />
      {add.error !== null && <Failure error={add.error} />}
      <div className="flex justify-end gap-2">
        <Button onClick={onDone}>Cancel</Button>
        <Button type="submit" variant="primary" disabled={add.isPending || chosen === ""}>
          Add {plural(runIds.length, "case")}
        </Button>
      </div>
    </Form>
  );
}

/** The field of an expected answer. */
export const EXPECTED = "Expected answer";
export const NONE = "None: the case is judged by other scorers";

/** Adds each run to a data set as a case. */
function useAdd(name: string, { runIds, onDone }: Parameters<typeof AddForm>[0], more: NewDatasetCase) {
  return useMutation({
    mutationFn: async () => {
      await client.datasets.make({ name });
      for (const runId of runIds) await client.datasets.addCase(name, { runId, ...more });
    },
    onSuccess: () => {
      tellDone(`Added ${plural(runIds.length, "case")} to the data set ${name}.`);
      onDone();
    },
    onSettled: useRefresh(["datasets"], ["dataset", name]),
  });
}
