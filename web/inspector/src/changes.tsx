/** Arguments that a person changed when they approved a call, beside those that the model asked for. */
import type { JsonValue } from "@windlass/protocol";
import { formatValue } from "@windlass/ui";
import type { ReactNode } from "react";

/** One argument before and after; undefined where there is none. */
export interface ChangedArgument {
  readonly name: string;
  readonly before: JsonValue | undefined;
  readonly after: JsonValue | undefined;
}

/** The arguments that differ, by name; anything that is not an object is compared whole. */
export function changedArguments(before: JsonValue, after: JsonValue): readonly ChangedArgument[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .map((name) => ({ name, before: old[name], after: now[name] }))
    .filter((one) => canonical(one.before) !== canonical(one.after));
}

function fieldsOf(value: JsonValue): Readonly<Record<string, JsonValue | undefined>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : { "": value };
}

/** JSON with sorted names: the order of members does not matter. */
function canonical(value: JsonValue | undefined): string | undefined {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name]) ?? ""}`).join()}}`;
}

interface ChangedArgumentsProps {
  readonly before: JsonValue;
  readonly after: JsonValue;
  readonly by: string | undefined;
}

/** A table of what was asked for and what was approved; signs and words, so that colour is not all. */
export function ChangedArguments({ before, after, by }: ChangedArgumentsProps): ReactNode {
  const changes = changedArguments(before, after);
  if (changes.length === 0) return null;
  return (
    <table aria-label="Changed arguments" className="w-full table-fixed border-collapse text-left text-xs">
      <caption className="mb-1 text-left text-xs font-semibold text-agent-muted">
        Changed by {by ?? "a person"} before approval
      </caption>
      <thead className="text-agent-muted">
        <tr>
          <th scope="col" className="w-1/4 p-1 font-normal">
            Argument
          </th>
          <th scope="col" className="p-1 font-normal">
            The model asked for
          </th>
          <th scope="col" className="p-1 font-normal">
            Approved
          </th>
        </tr>
      </thead>
      <tbody className="font-mono">
        {changes.map((change) => (
          <tr key={change.name} className="border-t border-agent-border align-top">
            <th scope="row" className="p-1 font-normal wrap-anywhere">
              {change.name === "" ? "(all)" : change.name}
            </th>
            <Side value={change.before} sign="−" className="text-agent-danger-text" />
            <Side value={change.after} sign="+" className="text-agent-success" />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface SideProps {
  readonly value: JsonValue | undefined;
  readonly sign: string;
  readonly className: string;
}

function Side({ value, sign, className }: SideProps): ReactNode {
  return (
    <td className={`p-1 whitespace-pre-wrap wrap-anywhere ${className}`}>
      {value === undefined ? "–" : `${sign} ${formatValue(value)}`}
    </td>
  );
}
