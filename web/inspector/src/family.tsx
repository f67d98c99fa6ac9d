/** The family of a run: the agents that work in it, who began whom, what each did, and where each of them is now. */
import type { TraceInfo } from "@windlass/protocol/client";
import {
  Badge,
  classes,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  formatShort,
  plural,
  traceShape,
  type TraceNode,
  type TraceShape,
} from "@windlass/ui";
import { Bot, Globe } from "lucide-react";
import { useMemo, type ReactNode } from "react";
import { Link, to } from "./router.js";

/** An agent in a family. */
export interface Member {
  readonly node: TraceNode;
  /** The run of the agent itself; undefined of one that has not begun. */
  readonly runId: string | undefined;
  /** The calls that it made itself, by the names of their tools; those of its programs too. */
  readonly tools: ReadonlyMap<string, number>;
  readonly steps: number;
  readonly failed: number;
  /** The call or wait that it is in now. */
  readonly current: TraceNode | undefined;
  readonly children: readonly Member[];
}

/** The agents of a trace, each below the one that began it, in the order of their beginning. */
export function familyOf(roots: readonly TraceNode[]): readonly Member[] {
  return roots.flatMap((node) => (node.kind === "agent" ? [memberOf(node, true)] : familyOf(node.children)));
}

function memberOf(node: TraceNode, isRoot: boolean): Member {
  const tools = new Map<string, number>();
  const children: Member[] = [];
  let [steps, failed] = [0, 0];
  let current: TraceNode | undefined;
  const look = (nodes: readonly TraceNode[]): void => {
    for (const one of nodes) {
      if (one.status === "running" || one.status === "waiting") current = one;
      if (one.kind === "agent") {
        children.push(memberOf(one, false));
        continue;
      }
      if (one.kind === "model") steps += 1;
      if (one.kind === "tool" || one.kind === "code") tools.set(one.name, (tools.get(one.name) ?? 0) + 1);
      if (one.status === "failed" || one.status === "interrupted") failed += 1;
      look(one.children);
    }
  };
  look(node.children);
  const child = node.span.attrs?.["childRunId"];
  const runId = isRoot ? node.runId : typeof child === "string" ? child : undefined;
  return { node, runId, tools, steps, failed, current, children };
}

/** Every agent, callers before those that they began. */
export function everyone(members: readonly Member[]): readonly Member[] {
  return members.flatMap((one) => [one, ...everyone(one.children)]);
}

const TONES = { running: "info", waiting: "wait", done: "good", stopped: "plain", skipped: "plain" } as const;
const isKnown = (status: string): status is keyof typeof TONES => Object.hasOwn(TONES, status);

/** What an agent took. */
function costOf({ tokens, costMicros, startMs, endMs }: TraceNode): string {
  return [
    formatDuration(endMs - startMs),
    tokens > 0 ? `${formatShort(tokens)} tokens` : "",
    costMicros === undefined ? "" : formatCost(costMicros),
  ]
    .filter((fact) => fact !== "")
    .join(" · ");
}

/** What an agent does now, or did. */
export function doingOf({ node, current, steps, tools, children }: Member): string {
  if (current !== undefined) return [current.name, current.about].filter((part) => part !== "").join(" · ");
  if (node.status === "failed" || node.status === "waiting") return node.about;
  const calls = [...tools.values()].reduce((sum, count) => sum + count, 0);
  return [
    steps > 0 ? plural(steps, "model call") : "",
    calls > 0 ? plural(calls, "tool call") : "",
    children.length > 0 ? plural(children.length, "subagent") : "",
  ]
    .filter((part) => part !== "")
    .join(" · ");
}

/** The agents as a graph from left to right; on a narrow page from top to bottom. Each leads to its trace. */
export function Family({
  traces,
  nowMs,
}: {
  readonly traces: readonly TraceInfo[];
  readonly nowMs: number | undefined;
}): ReactNode {
  const shape = useMemo(() => traceShape(traces, nowMs), [traces, nowMs]);
  const members = useMemo(() => familyOf(shape.roots), [shape]);
  const all = everyone(members);
  const live = all.filter(({ node: { status } }) => status === "running" || status === "waiting").length;
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-4 overflow-auto p-4">
      <p role="status" className="text-sm text-agent-muted">
        {plural(all.length, "agent")}
        {live > 0 && `, ${formatCount(live)} at work or waiting`}
        {all.length === 1 && ". It has begun no subagents."}
      </p>
      <Branch members={members} shape={shape} label="Agents of the run" isTop />
    </div>
  );
}

function Branch({
  members,
  shape,
  label,
  isTop = false,
}: {
  readonly members: readonly Member[];
  readonly shape: TraceShape;
  readonly label: string;
  readonly isTop?: boolean;
}): ReactNode {
  return (
    <ul
      aria-label={label}
      className={classes(
        "flex flex-col gap-3",
        !isTop && "border-agent-border max-sm:mt-3 max-sm:ml-3 max-sm:border-l max-sm:pl-3 sm:border-l",
      )}
    >
      {members.map((one) => (
        <li key={one.node.id} className="flex items-center max-sm:flex-col max-sm:items-stretch">
          {!isTop && (
            <span aria-hidden className={classes("w-6 shrink-0 border-t max-sm:hidden", edgeOf(one.node.status))} />
          )}
          <Card member={one} shape={shape} />
          {one.children.length > 0 && (
            <>
              <span aria-hidden className="w-6 shrink-0 border-t border-agent-border max-sm:hidden" />
              <Branch members={one.children} shape={shape} label={`Begun by ${one.node.name}`} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The line to an agent that works has the colour of work. */
function edgeOf(status: string): string {
  return status === "running" ? "border-agent-accent" : "border-agent-border";
}

function Card({ member, shape }: { readonly member: Member; readonly shape: TraceShape }): ReactNode {
  const { node, runId, tools, failed } = member;
  const { startMs, endMs, waitsMs, status } = node;
  const isRemote = tools.has(REMOTE);
  const Icon = isRemote ? Globe : Bot;
  const place = (ms: number): number => ((ms - shape.startMs) / (shape.endMs - shape.startMs)) * 100;
  const href = runId === undefined ? to(["runs", node.runId], { span: node.id }) : to(["runs", runId]);
  return (
    <Link
      href={href}
      className={classes(
        "flex w-72 shrink-0 flex-col gap-1.5 rounded-lg border bg-agent-surface p-3 text-xs hover:border-agent-field max-sm:w-full",
        edgeOf(status),
        FOCUS,
      )}
    >
      <span className="flex items-center gap-2">
        <Icon aria-hidden className="size-4 shrink-0 text-agent-kind-agent" />
        <span className="min-w-0 flex-1 truncate text-sm font-semibold">{node.name}</span>
        {isRemote && <Badge tone="plain">remote</Badge>}
        <Badge tone={isKnown(status) ? TONES[status] : "bad"}>{status}</Badge>
      </span>
      <span className="line-clamp-2 min-h-4 wrap-anywhere text-agent-muted">{doingOf(member)}</span>
      {(tools.size > 0 || failed > 0) && (
        <span className="flex flex-wrap gap-1">
          {[...tools].slice(0, TOOLS_MAX).map(([name, count]) => (
            <span key={name} className="max-w-40 truncate rounded bg-agent-code px-1.5 py-0.5 font-mono">
              {name}
              {count > 1 && ` ×${formatCount(count)}`}
            </span>
          ))}
          {tools.size > TOOLS_MAX && <span className="py-0.5">{`+${formatCount(tools.size - TOOLS_MAX)}`}</span>}
          {failed > 0 && <Badge tone="bad">{`${formatCount(failed)} failed`}</Badge>}
        </span>
      )}
      <span className="text-agent-muted tabular-nums">{costOf(node)}</span>
      {/* When it worked, in the time of the whole run. */}
      <span aria-hidden className="relative h-1 overflow-hidden rounded-full bg-agent-code">
        <Time from={place(startMs)} to={place(waitsMs ?? endMs)} color="bg-agent-kind-agent" />
        {waitsMs !== undefined && <Time from={place(waitsMs)} to={place(endMs)} color="bg-agent-kind-wait" />}
      </span>
    </Link>
  );
}

/** The tool of an agent on another server: it has no other. */
const REMOTE = "remote";
/** Tools that a card names. */
const TOOLS_MAX = 4;

function Time({
  from,
  to: end,
  color,
}: {
  readonly from: number;
  readonly to: number;
  readonly color: string;
}): ReactNode {
  return (
    <span
      className={classes("absolute h-full min-w-0.5 rounded-full", color)}
      style={{ left: `min(${from}%, 100% - 2px)`, width: `${end - from}%` }}
    />
  );
}
