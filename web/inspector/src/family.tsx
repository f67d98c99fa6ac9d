/** The family of a run: the agents that work in it, who began whom, and where each of them is now. */
import type { TraceInfo } from "@windlass/protocol/client";
import {
  Badge,
  classes,
  FOCUS,
  formatCost,
  formatDuration,
  formatShort,
  traceShape,
  type TraceNode,
} from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { Link, to } from "./router.js";

/** An agent in a family. */
export interface Member {
  readonly node: TraceNode;
  /** The run of the agent itself; that of its caller until it has begun. */
  readonly runId: string;
  readonly depth: number;
  /** Its place among all agents, from the top; between its children, if it has any. */
  readonly row: number;
  readonly children: readonly Member[];
}

/** The agents of a trace as layers: each behind the one that began it, in the order of their beginning. */
export function familyOf(roots: readonly TraceNode[]): { readonly members: readonly Member[]; readonly rows: number } {
  let rows = 0;
  const agentsIn = (nodes: readonly TraceNode[]): readonly TraceNode[] =>
    nodes.flatMap((node) => (node.kind === "agent" ? [node] : agentsIn(node.children)));
  const placed = (node: TraceNode, depth: number): Member => {
    const children = agentsIn(node.children).map((child) => placed(child, depth + 1));
    const first = children[0]?.row;
    const last = children.at(-1)?.row;
    const row = first === undefined || last === undefined ? rows++ : (first + last) / 2;
    const child = node.span.attrs?.["childRunId"];
    return { node, runId: typeof child === "string" ? child : node.runId, depth, row, children };
  };
  return { members: agentsIn(roots).map((node) => placed(node, 0)), rows };
}

/** Every agent, callers before those that they began. */
export function everyone(members: readonly Member[]): readonly Member[] {
  return members.flatMap((one) => [one, ...everyone(one.children)]);
}

const NODE = { width: 196, height: 48 };
const GAP = { x: 56, y: 16 };
const EDGE_PX = 16;
const DOTS = {
  running: "fill-agent-accent motion-safe:animate-pulse",
  waiting: "fill-agent-warning",
  done: "fill-agent-success",
  stopped: "fill-agent-muted",
  skipped: "fill-agent-muted",
} as const;
const TONES = { running: "info", waiting: "wait", done: "good", stopped: "plain", skipped: "plain" } as const;
const isKnown = (status: string): status is keyof typeof DOTS => Object.hasOwn(DOTS, status);

const x = ({ depth }: Member): number => EDGE_PX + depth * (NODE.width + GAP.x);
const y = ({ row }: Member): number => EDGE_PX + row * (NODE.height + GAP.y);

function factsOf({ node: { tokens, costMicros, startMs, endMs } }: Member): string {
  return [
    formatDuration(endMs - startMs),
    tokens > 0 ? `${formatShort(tokens)} tokens` : "",
    costMicros === undefined ? "" : formatCost(costMicros),
  ]
    .filter((fact) => fact !== "")
    .join(" · ");
}

/** A graph where there is room, and the same as a list below it, with links to the runs. */
export function Family({
  traces,
  nowMs,
}: {
  readonly traces: readonly TraceInfo[];
  readonly nowMs: number | undefined;
}): ReactNode {
  const { members, rows } = useMemo(() => familyOf(traceShape(traces, nowMs).roots), [traces, nowMs]);
  const all = everyone(members);
  const width = 2 * EDGE_PX + Math.max(...all.map((one) => x(one) + NODE.width), NODE.width);
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-4 overflow-auto p-4">
      {/* The list says the same in words, and has the links. */}
      <svg
        aria-hidden
        width={width}
        height={2 * EDGE_PX + rows * (NODE.height + GAP.y)}
        className="shrink-0 max-sm:hidden"
      >
        {all.flatMap((one) =>
          one.children.map((child) => (
            <path
              key={child.node.id}
              d={`M ${x(one) + NODE.width} ${y(one) + NODE.height / 2} c ${GAP.x / 2} 0 ${GAP.x / 2} ${y(child) - y(one)} ${GAP.x} ${y(child) - y(one)}`}
              className={classes(
                "fill-none stroke-agent-border",
                child.node.status === "running" && "stroke-agent-accent!",
              )}
              strokeWidth={1.5}
            />
          )),
        )}
        {all.map((one) => (
          <g key={one.node.id} transform={`translate(${x(one)} ${y(one)})`}>
            <rect
              width={NODE.width}
              height={NODE.height}
              rx={8}
              className={classes(
                "fill-agent-surface stroke-agent-border",
                one.node.status === "running" && "stroke-agent-accent!",
              )}
            />
            <circle
              cx={16}
              cy={17}
              r={4}
              className={isKnown(one.node.status) ? DOTS[one.node.status] : "fill-agent-danger"}
            />
            <text x={28} y={21} className="fill-agent-text text-[13px] font-semibold">
              {short(one.node.name)}
            </text>
            <text x={16} y={38} className="fill-agent-muted text-[11.5px]">
              {factsOf(one)}
            </text>
          </g>
        ))}
      </svg>
      <Names members={members} label="Agents of the run" />
    </div>
  );
}

const NAME_CHARS_MAX = 22;

function short(name: string): string {
  return name.length > NAME_CHARS_MAX ? `${name.slice(0, NAME_CHARS_MAX - 1)}…` : name;
}

function Names({ members, label }: { readonly members: readonly Member[]; readonly label: string }): ReactNode {
  return (
    <ul
      aria-label={label}
      className="flex flex-col gap-1 text-sm [&_ul]:mt-1 [&_ul]:ml-2 [&_ul]:border-l [&_ul]:border-agent-border [&_ul]:pl-4"
    >
      {members.map((one) => (
        <li key={one.node.id}>
          <span className="flex flex-wrap items-center gap-2">
            <Link href={to(["runs", one.runId])} className={classes("rounded font-semibold hover:underline", FOCUS)}>
              {one.node.name}
            </Link>
            <Badge tone={isKnown(one.node.status) ? TONES[one.node.status] : "bad"}>{one.node.status}</Badge>
            <span className="text-xs text-agent-muted tabular-nums">{factsOf(one)}</span>
          </span>
          {one.children.length > 0 && <Names members={one.children} label={`Begun by ${one.node.name}`} />}
        </li>
      ))}
    </ul>
  );
}
