/** The family of a run: its agents as a tree, with the work and the state of each. */
import type { TraceInfo } from "@windlass/protocol/client";
import {
  axisOf,
  Badge,
  classes,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  formatShort,
  plural,
  traceShape,
  type Axis,
  type TraceNode,
} from "@windlass/ui";
import { Bot, Globe } from "lucide-react";
import { useMemo, type ReactNode } from "react";
import { to } from "./addresses.js";
import { Link } from "./router.js";

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
    for (const node of nodes) {
      if (node.status === "running" || node.status === "waiting") current = node;
      if (node.kind === "agent") {
        children.push(memberOf(node, false));
        continue;
      }
      if (node.kind === "model") steps += 1;
      if (node.kind === "tool" || node.kind === "code") tools.set(node.name, (tools.get(node.name) ?? 0) + 1);
      if (node.status === "failed" || node.status === "interrupted") failed += 1;
      look(node.children);
    }
  };
  look(node.children);
  const child = node.span.attrs?.["childRunId"];
  const runId = isRoot ? node.runId : typeof child === "string" ? child : undefined;
  return { node, runId, tools, steps, failed, current, children };
}

/** Every agent, callers before those that they began. */
export function everyone(members: readonly Member[]): readonly Member[] {
  return members.flatMap((member) => [member, ...everyone(member.children)]);
}

const TONES = { running: "info", waiting: "wait", done: "good", stopped: "plain", skipped: "plain" } as const;
const isKnown = (status: string): status is keyof typeof TONES => Object.hasOwn(TONES, status);

/** Time, tokens and cost of an agent. */
function costOf({ tokens, costMicros, startMs, endMs }: TraceNode): string {
  return [
    formatDuration(endMs - startMs),
    tokens > 0 ? `${formatShort(tokens)} tokens` : "",
    costMicros === undefined ? "" : formatCost(costMicros),
  ]
    .filter((fact) => fact !== "")
    .join(" · ");
}

/** The current call or wait of an agent; of one that is done, the number of its calls. */
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

/** A piece of time in which an agent did one kind of thing, as parts of the whole. */
export interface Piece {
  readonly kind: TraceNode["kind"];
  readonly from: number;
  readonly to: number;
}

/** Pieces of the same kind that are closer than this are drawn as one: a long run has more than a screen has places. */
const CLOSE = 0.002;

/** The own work of an agent in the order of time; waits for people and for subagents too. */
export function piecesOf({ node }: Member, axis: Axis): readonly Piece[] {
  const own: TraceNode[] = [];
  const look = (nodes: readonly TraceNode[]): void => {
    for (const node of nodes) {
      // A program is what its calls are.
      if (node.kind === "code" && node.children.length > 0) look(node.children);
      else own.push(node);
    }
  };
  look(node.children);
  const pieces: { kind: Piece["kind"]; from: number; to: number }[] = [];
  for (const { kind, status, startMs, endMs } of own.toSorted((first, other) => first.startMs - other.startMs)) {
    const shown = status === "waiting" ? "wait" : kind;
    const [from, to] = [axis.at(startMs) / axis.wholeMs, axis.at(endMs) / axis.wholeMs];
    const last = pieces.at(-1);
    if (last?.kind === shown && from - last.to < CLOSE) last.to = Math.max(last.to, to);
    else pieces.push({ kind: shown, from, to });
  }
  return pieces;
}

/** The agents as a tree with what each did in time beside it; waits are folded. Each agent leads to its trace. */
export function Family({
  traces,
  nowMs,
}: {
  readonly traces: readonly TraceInfo[];
  readonly nowMs: number | undefined;
}): ReactNode {
  const shape = useMemo(() => traceShape(traces, nowMs), [traces, nowMs]);
  const members = useMemo(() => familyOf(shape.roots), [shape]);
  const axis = useMemo(() => axisOf(shape, true), [shape]);
  const all = everyone(members);
  const live = all.filter(({ node: { status } }) => status === "running" || status === "waiting").length;
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-2 overflow-auto p-4">
      <div className="flex items-end gap-4 text-xs text-agent-muted">
        <p role="status" className="shrink-0 sm:w-88">
          {plural(all.length, "agent")}
          {live > 0 && `, ${formatCount(live)} at work or waiting`}
          {all.length === 1 && ". It has begun no subagents."}
        </p>
        <span aria-hidden className="flex min-w-0 flex-1 justify-between tabular-nums max-sm:hidden">
          <span>0 s</span>
          <span className="flex gap-3">
            {LEGEND.map(([kind, meaning]) => (
              <span key={kind} className="flex items-center gap-1">
                <span className={classes("size-2 rounded-xs", COLOURS[kind])} />
                {meaning}
              </span>
            ))}
          </span>
          <span>{formatDuration(axis.wholeMs)}</span>
        </span>
      </div>
      <Branch members={members} axis={axis} label="Agents of the run" depth={0} />
    </div>
  );
}

const COLOURS: Readonly<Record<Piece["kind"], string>> = {
  agent: "bg-agent-kind-agent/40",
  model: "bg-agent-kind-model",
  tool: "bg-agent-kind-tool",
  code: "bg-agent-kind-code",
  wait: "bg-agent-kind-wait",
  other: "bg-agent-muted",
};
const LEGEND: readonly (readonly [Piece["kind"], string])[] = [
  ["model", "model"],
  ["tool", "tool"],
  ["wait", "wait"],
  ["agent", "subagent"],
];
/** The width of a card and how much of it a level takes, so that all lanes begin at one place. */
const CARD_REM = 22;
const LEVEL_REM = 1.25;

function Branch({
  members,
  axis,
  label,
  depth,
}: {
  readonly members: readonly Member[];
  readonly axis: Axis;
  readonly label: string;
  readonly depth: number;
}): ReactNode {
  return (
    <ul
      aria-label={label}
      className={classes("flex flex-col gap-2", depth > 0 && "mt-2 border-l-2 border-agent-border")}
      style={depth === 0 ? undefined : { paddingLeft: `calc(${LEVEL_REM}rem - 2px)` }}
    >
      {members.map((member) => (
        <li key={member.node.id}>
          <div className="flex items-stretch gap-4 max-sm:flex-col max-sm:gap-1">
            <Card member={member} width={`${Math.max(CARD_REM - depth * LEVEL_REM, CARD_REM / 2)}rem`} />
            <Lane pieces={piecesOf(member, axis)} isLive={member.node.status === "running"} />
          </div>
          {member.children.length > 0 && (
            <Branch members={member.children} axis={axis} label={`Begun by ${member.node.name}`} depth={depth + 1} />
          )}
        </li>
      ))}
    </ul>
  );
}

/** The tool of an agent on another server: it has no other. */
const REMOTE = "remote";
/** Tools that a card names. */
const TOOLS_MAX = 4;

function Card({ member, width }: { readonly member: Member; readonly width: string }): ReactNode {
  const { node, runId, tools, failed } = member;
  const { status } = node;
  const isRemote = tools.has(REMOTE);
  const Icon = isRemote ? Globe : Bot;
  const href = runId === undefined ? to("run", [node.runId], { span: node.id }) : to("run", [runId]);
  return (
    <Link
      href={href}
      style={{ width }}
      className={classes(
        "flex shrink-0 flex-col gap-1.5 rounded-lg border bg-agent-surface p-3 text-xs hover:border-agent-field max-sm:w-full!",
        status === "running" ? "border-agent-accent" : "border-agent-border",
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
    </Link>
  );
}

/** The work of an agent on the time of the whole run. */
function Lane({ pieces, isLive }: { readonly pieces: readonly Piece[]; readonly isLive: boolean }): ReactNode {
  return (
    <span
      aria-hidden
      className="relative min-w-0 flex-1 self-center rounded bg-agent-surface max-sm:flex-none max-sm:self-stretch"
    >
      <span className="block h-6 max-sm:h-3" />
      {pieces.map(({ kind, from, to: end }, at) => (
        <span
          key={at}
          className={classes(
            "absolute top-0 h-full min-w-0.5 rounded-xs",
            COLOURS[kind],
            isLive && at === pieces.length - 1 && "motion-safe:animate-pulse",
          )}
          style={{ left: `min(${from * 100}%, 100% - 2px)`, width: `${(end - from) * 100}%` }}
        />
      ))}
    </span>
  );
}
