/** Data sets beside other pages: adding runs as cases, and texts of inputs and answers. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { JsonValue } from "@windlass/protocol";
import type { NewDatasetCase } from "@windlass/protocol/client";
import { BUTTONS, Dialog, FIELD, formatValue, plural } from "@windlass/ui";
import { useId, useState, type ReactNode, type SyntheticEvent } from "react";
import { client } from "./auth.js";
import { Failure, TagsField, tagsIn } from "./parts.js";
import { datasetsQuery, runQuery } from "./queries.js";
import { to } from "./router.js";
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
  const [isOpen, setIsOpen] = useState(false);
  const close = (): void => {
    setIsOpen(false);
  };
  return (
    <>
      <button
        type="button"
        className={BUTTONS.default}
        onClick={() => {
          setIsOpen(true);
        }}
      >
        {label}
      </button>
      <Dialog title={label} isOpen={isOpen} onClose={close}>
        {isOpen && <AddForm runIds={runIds} expected={expected} more={more} onDone={close} />}
      </Dialog>
    </>
  );
}

function AddForm({
  runIds,
  expected,
  more: facts,
  onDone,
}: Omit<AddProps, "label"> & { readonly onDone: () => void }): ReactNode {
  const list = useId();
  const { data: known } = useQuery(datasetsQuery);
  const [only] = runIds.length === 1 ? runIds : [];
  const { data: run } = useQuery({ ...runQuery(only ?? ""), enabled: only !== undefined && expected === undefined });
  const names = known?.datasets.map(({ name }) => name) ?? [];
  const [name, setName] = useState<string>();
  const [tags, setTags] = useState("");
  const [answer, setAnswer] = useState<string>();
  const given = run?.result?.structuredOutput ?? run?.result?.output ?? expected;
  const queries = useQueryClient();
  const chosen = (name ?? names[0] ?? "").trim();
  const add = useMutation({
    mutationFn: async () => {
      await client.makeDataset(chosen);
      const more: NewDatasetCase = { ...facts, ...(tagsIn(tags).length > 0 && { tags: tagsIn(tags) }) };
      for (const runId of runIds) {
        const own = only === undefined || (answer === undefined && expected === undefined);
        const body = own
          ? { runId, ...more }
          : { runId, ...more, expected: expectedIn(answer ?? expected ?? "", given) };
        await client.addCase(chosen, body);
      }
    },
    onSuccess: () => {
      tellDone(`Added ${plural(runIds.length, "case")} to the data set ${chosen}.`);
      onDone();
    },
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["datasets"] });
      void queries.invalidateQueries({ queryKey: ["dataset", chosen] });
    },
  });
  const send = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (chosen !== "") add.mutate();
  };
  return (
    <form className="flex flex-col gap-3 text-sm" onSubmit={send}>
      <label className="flex flex-col gap-1">
        Data set
        <input
          className={FIELD}
          list={list}
          required
          maxLength={200}
          placeholder="A new name makes a new one"
          value={name ?? names[0] ?? ""}
          onChange={(event) => {
            setName(event.target.value);
          }}
        />
        <datalist id={list}>
          {names.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      </label>
      {only !== undefined && (
        <label className="flex flex-col gap-1">
          Expected answer
          <textarea
            className={FIELD}
            rows={4}
            placeholder="None: the case is judged by other scorers"
            value={answer ?? textOf(given)}
            onChange={(event) => {
              setAnswer(event.target.value);
            }}
          />
          <span className="text-xs text-agent-muted">
            That of the run. Correct it if it is wrong: the next experiment expects what stands here.
          </span>
        </label>
      )}
      <TagsField value={tags} onChange={setTags} />
      {add.error !== null && <Failure error={add.error} />}
      <div className="flex justify-end gap-2">
        <button type="button" className={BUTTONS.default} onClick={onDone}>
          Cancel
        </button>
        <button type="submit" className={BUTTONS.primary} disabled={add.isPending || chosen === ""}>
          Add {plural(runIds.length, "case")}
        </button>
      </div>
    </form>
  );
}

/** The address of a data set. */
export function datasetAddress(name: string): string {
  return to(["datasets", name]);
}
