/** Exactly what a model was sent in one step. */
import { useQuery } from "@tanstack/react-query";
import type { PromptMessage, StepPrompt } from "@windlass/protocol/client";
import { attachmentsOf } from "@windlass/protocol";
import { classes, CODE, CopyButton, cut, FOCUS, formatValue } from "@windlass/ui";
import { useState, type ReactNode } from "react";
import { plural } from "../lib/format.js";
import { promptQuery } from "../lib/queries.js";
import { Loading } from "./basics.js";

const TEXT_CHARS_MAX = 50_000;
const MESSAGES_MAX = 200;

interface PromptProps {
  readonly runId: string;
  readonly stepIndex: number;
  /** How many messages it had, if that is known. */
  readonly count: number | undefined;
}

/** The prompt of a step, asked for when somebody wants to see it. */
export function Prompt({ runId, stepIndex, count }: PromptProps): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  const { data, error } = useQuery({ ...promptQuery(runId, stepIndex), enabled: isOpen });
  return (
    <details
      className="text-xs"
      onToggle={(event) => {
        setIsOpen(event.currentTarget.open);
      }}
    >
      <summary className={classes("w-fit cursor-pointer rounded font-medium", FOCUS)}>
        Exact prompt
        {count !== undefined && <span className="font-normal text-agent-muted"> {plural(count, "message")}</span>}
      </summary>
      {error !== null && (
        <p role="alert" className="mt-2 text-agent-danger-text">
          {error.message}
        </p>
      )}
      {isOpen && data === undefined && error === null && <Loading label="Rebuilding the prompt" />}
      {data !== undefined && <Whole prompt={data} />}
    </details>
  );
}

function Whole({ prompt }: { readonly prompt: StepPrompt }): ReactNode {
  const { system, tools, outputSchema, messages, unknown, temperature, modelId } = prompt;
  const text = JSON.stringify(prompt, undefined, 2);
  const shown = messages.slice(-MESSAGES_MAX);
  return (
    <div className="mt-2 flex flex-col gap-3">
      <p className="flex items-center justify-between gap-2 text-agent-muted">
        <span>
          <span className="font-mono">{modelId}</span>
          {temperature !== undefined && `, temperature ${temperature}`}
        </span>
        <CopyButton text={text} label="Copy prompt" />
      </p>
      {unknown.map((words) => (
        <p key={words} className="border-l-2 border-l-agent-warning pl-3 text-agent-muted">
          {words}
        </p>
      ))}
      {system !== undefined && <Box title="Instructions" text={system} />}
      {tools.length > 0 && (
        <div className="flex flex-col gap-1">
          <p className="text-agent-muted">Tools</p>
          {tools.map(({ name, description, inputSchema }) => (
            <details key={name} className="rounded-md bg-agent-code px-3 py-2">
              <summary className={classes("cursor-pointer rounded wrap-anywhere", FOCUS)}>
                <span className="font-mono">{name}</span> <span className="text-agent-muted">{description}</span>
              </summary>
              <pre className="mt-2 overflow-auto font-mono whitespace-pre-wrap wrap-anywhere">
                {formatValue(inputSchema)}
              </pre>
            </details>
          ))}
        </div>
      )}
      {outputSchema !== undefined && <Box title="Schema of the output" text={formatValue(outputSchema)} />}
      <div>
        <p className="mb-1 text-agent-muted">
          Messages{messages.length > shown.length && `, the last ${MESSAGES_MAX} of ${messages.length}`}
        </p>
        <ol className="flex flex-col gap-2">
          {shown.map((message, at) => (
            <li key={at}>
              <Message message={message} />
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

function Message({ message }: { readonly message: PromptMessage }): ReactNode {
  const { role, name, content, toolCalls = [], parts = [], reasoning, isError } = message;
  return (
    <div className={classes("border-l-2 pl-3", isError === true ? "border-l-agent-danger" : "border-l-agent-border")}>
      <p className="font-medium">
        {role}
        {name !== undefined && <span className="font-mono font-normal text-agent-muted"> {name}</span>}
      </p>
      {reasoning !== undefined && reasoning !== "" && (
        <p className="whitespace-pre-wrap wrap-anywhere text-agent-muted italic">{cut(reasoning, TEXT_CHARS_MAX)}</p>
      )}
      <p className="whitespace-pre-wrap wrap-anywhere">{cut(content, TEXT_CHARS_MAX)}</p>
      {attachmentsOf(parts).map(({ name: file, mediaType }, at) => (
        <p key={at} className="text-agent-muted">
          [{file}, {mediaType}]
        </p>
      ))}
      {toolCalls.map((call) => (
        <p key={call.id} className="font-mono wrap-anywhere">
          {call.name}({formatValue(call.arguments)})
        </p>
      ))}
    </div>
  );
}

function Box({ title, text }: { readonly title: string; readonly text: string }): ReactNode {
  return (
    <div>
      <p className="mb-1 text-agent-muted">{title}</p>
      <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label={title}>
        {cut(text, TEXT_CHARS_MAX)}
      </pre>
    </div>
  );
}
