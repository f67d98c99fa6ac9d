/** What people say of a run, a step or an answer: thumbs at hand, a score, a note and tags on demand. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { FeedbackInfo, NewFeedback } from "@windlass/protocol/client";
import { Button, classes, FOCUS, formatWhen, plural } from "@windlass/ui";
import { MessageSquareText, ThumbsDown, ThumbsUp } from "lucide-react";
import { Popover } from "radix-ui";
import { useState, type ReactNode } from "react";
import { client } from "./auth.js";
import { Field, Form, NoteField, TagsField, tagsIn } from "./form.js";
import { feedbackQuery } from "./queries.js";

/** What is judged: a run, one of its steps, or one of its answers. */
export interface Judged {
  readonly runId: string;
  readonly stepIndex?: number | undefined;
  readonly messageId?: string | undefined;
}

/** The feedback that is about exactly one thing, oldest first. */
export function feedbackOn(all: readonly FeedbackInfo[], { stepIndex, messageId }: Judged): readonly FeedbackInfo[] {
  return all.filter((feedback) => feedback.stepIndex === stepIndex && feedback.messageId === messageId);
}

/** The newest thumb; undefined if there is none. */
export function thumbOf(some: readonly FeedbackInfo[]): "up" | "down" | undefined {
  return some.findLast(({ thumb }) => thumb !== undefined)?.thumb;
}

/** Feedback in one line. */
export function toldOf({ thumb, score, note, tags = [] }: FeedbackInfo): string {
  return [
    thumb === undefined ? "" : thumb === "up" ? "+1" : "−1",
    score === undefined ? "" : `score ${Math.round(score * 100)} %`,
    note === undefined ? "" : `“${note}”`,
    tags.join(", "),
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

/** Gives feedback, and has lists and the thing itself know it. */
export function useGive({ runId, stepIndex, messageId }: Judged) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (draft: NewFeedback) =>
      client.runs.giveFeedback(runId, {
        ...draft,
        ...(stepIndex === undefined ? {} : { stepIndex }),
        ...(messageId === undefined ? {} : { messageId }),
      }),
    // The record follows in the turn of the session; what was said is shown at once.
    onSuccess: (_, draft) => {
      const feedback: FeedbackInfo = { ...draft, runId, stepIndex, messageId, at: new Date().toISOString() };
      queries.setQueryData(feedbackQuery(runId).queryKey, (before) => [...(before ?? []), feedback]);
      void queries.invalidateQueries({ queryKey: ["runs"] });
    },
  });
}

const THUMB =
  "inline-flex size-6 cursor-pointer items-center justify-center rounded text-agent-muted hover:bg-agent-raised hover:text-agent-text disabled:opacity-60 pointer-coarse:size-9";

/** Thumbs for one thing, and a form for the rest. `what` names the thing for those who do not see it. */
export function Judgement({
  what,
  isQuiet = false,
  ...judged
}: Judged & { readonly what: string; readonly isQuiet?: boolean }): ReactNode {
  const { data = [] } = useQuery({ ...feedbackQuery(judged.runId), enabled: !isQuiet });
  const give = useGive(judged);
  const feedback = feedbackOn(data, judged);
  const thumb = thumbOf(feedback);
  const button = (kind: "up" | "down", label: string, Icon: typeof ThumbsUp): ReactNode => (
    <button
      type="button"
      aria-label={`${label}: ${what}`}
      aria-pressed={thumb === kind}
      title={label}
      disabled={give.isPending}
      className={classes(
        THUMB,
        FOCUS,
        thumb === kind &&
          (kind === "up" ? "bg-agent-raised text-agent-success!" : "bg-agent-raised text-agent-danger-text!"),
      )}
      onClick={() => {
        give.mutate({ thumb: kind });
      }}
    >
      <Icon aria-hidden size={14} fill={thumb === kind ? "currentColor" : "none"} />
    </button>
  );
  return (
    <span role="group" aria-label={`Feedback on ${what}`} className="inline-flex items-center gap-0.5">
      {button("up", "Good", ThumbsUp)}
      {button("down", "Bad", ThumbsDown)}
      <More what={what} judged={judged} given={feedback} />
      {give.error !== null && (
        <span role="alert" className="text-xs text-agent-danger-text">
          {give.error.message}
        </span>
      )}
    </span>
  );
}

function More({
  what,
  judged,
  given: feedback,
}: {
  readonly what: string;
  readonly judged: Judged;
  readonly given: readonly FeedbackInfo[];
}): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <Popover.Root open={isOpen} onOpenChange={setIsOpen}>
      <Popover.Trigger
        aria-label={`Note, score and tags: ${what}${feedback.length === 0 ? "" : `, ${plural(feedback.length, "entry")}`}`}
        title="Note, score and tags"
        className={classes(THUMB, FOCUS, feedback.length > 0 && "w-auto! gap-1 px-1 text-xs tabular-nums")}
      >
        <MessageSquareText aria-hidden size={14} />
        {feedback.length > 0 && feedback.length}
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          aria-label={`Feedback on ${what}`}
          className="z-30 flex max-h-[70vh] w-80 max-w-[92vw] flex-col gap-3 overflow-auto rounded-md border border-agent-border bg-agent-bg p-3 text-sm text-agent-text shadow-lg"
        >
          {feedback.length > 0 && (
            <ul className="flex flex-col gap-1 text-xs">
              {feedback.map((entry) => (
                <li key={`${entry.at} ${toldOf(entry)}`} className="wrap-anywhere">
                  {toldOf(entry)}{" "}
                  <span className="text-agent-muted">
                    {entry.by !== undefined && `${entry.by}, `}
                    <time dateTime={entry.at}>{formatWhen(entry.at)}</time>
                  </span>
                </li>
              ))}
            </ul>
          )}
          <FeedbackForm
            judged={judged}
            onDone={() => {
              setIsOpen(false);
            }}
          />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function FeedbackForm({ judged, onDone }: { readonly judged: Judged; readonly onDone: () => void }): ReactNode {
  const [score, setScore] = useState("");
  const [note, setNote] = useState("");
  const [tags, setTags] = useState("");
  const give = useGive(judged);
  const body: NewFeedback = { ...(score !== "" && { score: Number(score) / 100 }), ...wordsIn(note, tags) };
  return (
    <Form
      className="flex flex-col gap-2 text-xs"
      onSend={() => {
        give.mutate(body, { onSuccess: onDone });
      }}
    >
      <NoteField value={note} onChange={setNote} />
      <Field label="Score, from 0 to 100" type="number" min={0} max={100} value={score} onChange={setScore} />
      <TagsField value={tags} onChange={setTags} />
      {give.error !== null && (
        <p role="alert" className="text-agent-danger-text">
          {give.error.message}
        </p>
      )}
      <Button
        type="submit"
        variant="primary"
        className="self-start"
        disabled={Object.keys(body).length === 0 || give.isPending}
      >
        Save
      </Button>
    </Form>
  );
}

/** A note and tags, as far as there are any. */
export function wordsIn(note: string, tags: string): Pick<NewFeedback, "note" | "tags"> {
  const [text, labels] = [note.trim(), tagsIn(tags)];
  return { ...(text !== "" && { note: text }), ...(labels.length > 0 && { tags: labels }) };
}
