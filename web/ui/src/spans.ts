/** Traces as a tree of spans on one axis of time: subagents under their calls, waits folded. */
import type { JsonValue, TraceSpan } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { FORMATS } from "./format.js";
import { labelOf, WORDING, type Wording } from "./labels.js";

/** What a span is. */
export type SpanKind = "agent" | "model" | "tool" | "code" | "wait" | "other";

/** Where a span is; `failed` is what a person looks for first. */
export type SpanStatus = "running" | "waiting" | "interrupted" | "done" | "failed" | "denied" | "stopped" | "skipped";

/** A span with everything that a row shows. */
export interface TraceNode {
  readonly id: string;
  readonly span: TraceSpan;
  /** The run that has the records of the span; the call of a subagent is in the run of its caller. */
  readonly runId: string;
  readonly kind: SpanKind;
  readonly name: string;
  /** The model, the mode, the person: one line beside the name. */
  readonly about: string;
  /** All words of the span, in small letters, to find it by. */
  readonly words: string;
  readonly status: SpanStatus;
  /** Which attempt it is, from 1. */
  readonly attempt: number;
  /** Milliseconds since 1970; the end of an open span is the moment that was given. */
  readonly startMs: number;
  readonly endMs: number;
  /** Since when an agent waits; undefined of one that works or is done. */
  readonly waitsMs: number | undefined;
  /** Of the span and everything below it. */
  readonly tokens: number;
  readonly costMicros: number | undefined;
  readonly children: readonly TraceNode[];
}

/** A tree and the axis that its spans are drawn on. */
export interface TraceShape {
  readonly roots: readonly TraceNode[];
  readonly startMs: number;
  readonly endMs: number;
  /** Times at which something worked, in order and apart from each other. */
  readonly busy: readonly Interval[];
}

/** A part of time, milliseconds. */
export type Interval = readonly [fromMs: number, toMs: number];

/** The words and formats that spans are told with. */
export type SpanWording = Pick<Wording, "labels" | "formatCount" | "formatDuration" | "formatMoment" | "formatShort">;

/**
 * Makes the tree of a run.
 *
 * `traces` has the trace of the run first, and those of its subagents in any order: each stands under the call that
 * began it. A span without its parent stands at the top. `wording` is English when absent.
 */
export function traceShape(traces: readonly TraceInfo[], nowMs?: number, wording: SpanWording = WORDING): TraceShape {
  const cached = nowMs === undefined ? SHAPES.get(traces)?.get(wording) : undefined;
  if (cached !== undefined) return cached;
  const shape = makeShape(traces, nowMs, wording);
  if (nowMs === undefined) SHAPES.set(traces, new WeakMap([[wording, shape]]));
  return shape;
}

/** Shapes of traces that are over: one for all components that show them. */
const SHAPES = new WeakMap<readonly TraceInfo[], WeakMap<SpanWording, TraceShape>>();

function makeShape(traces: readonly TraceInfo[], nowMs: number | undefined, wording: SpanWording): TraceShape {
  let [startMs, lastMs] = [Infinity, nowMs ?? -Infinity];
  for (const { spans } of traces)
    for (const { startAt, endAt = startAt } of spans) {
      startMs = Math.min(startMs, Date.parse(startAt));
      lastMs = Math.max(lastMs, Date.parse(endAt));
    }
  const maker = new Maker(traces, lastMs, wording);
  const roots = maker.tree();
  const hasSpans = startMs !== Infinity;
  return {
    roots,
    startMs: hasSpans ? startMs : 0,
    endMs: hasSpans ? Math.max(lastMs, startMs + 1) : 1,
    busy: merged(maker.work),
  };
}

class Maker {
  /** When models and tools were at work. */
  readonly work: Interval[] = [];
  private readonly runs = new Map<string, TraceInfo>();
  private readonly nested = new Set<string>();

  constructor(
    private readonly traces: readonly TraceInfo[],
    private readonly lastMs: number,
    private readonly wording: SpanWording,
  ) {
    for (const trace of traces) this.runs.set(runIdOf(trace), trace);
    for (const { spans } of traces)
      for (const { attrs } of spans) {
        const child = text(attrs?.["childRunId"]);
        if (child !== undefined && this.runs.has(child)) this.nested.add(child);
      }
  }

  tree(): readonly TraceNode[] {
    return this.traces
      .filter((trace, at) => at === 0 || !this.nested.has(runIdOf(trace)))
      .flatMap((trace) => this.run(trace));
  }

  /** The spans of one run. Its turn is left out: what is in it stands under the run. */
  private run(info: TraceInfo): readonly TraceNode[] {
    const { spans } = info;
    const runId = runIdOf(info);
    const byId = new Map(spans.map((span) => [span.spanId, span]));
    const home = (span: TraceSpan): string => {
      const parent = span.parentId === undefined ? undefined : byId.get(span.parentId);
      if (parent === undefined) return "";
      return parent.name === "turn" ? home(parent) : parent.spanId;
    };
    const below = new Map<string, TraceSpan[]>();
    const approvals = new Map<string, TraceSpan>();
    for (const span of spans) {
      if (span.name === "turn") continue;
      const callId =
        span.name === "wait" && span.attrs?.["kind"] === "approval" ? text(span.attrs["callId"]) : undefined;
      if (callId !== undefined) approvals.set(callId, span);
      const key = home(span);
      const list = below.get(key);
      if (list === undefined) below.set(key, [span]);
      else list.push(span);
    }
    const make = (span: TraceSpan): TraceNode => {
      const approval = approvals.get(text(span.attrs?.["callId"]) ?? "");
      // A call of a subagent may have the same id.
      const isOfCall = approval !== span && approval?.attrs?.["toolName"] === span.attrs?.["toolName"];
      return this.node(span, runId, (below.get(span.spanId) ?? []).map(make), isOfCall ? approval : undefined);
    };
    return byStart((below.get("") ?? []).map(make));
  }

  private node(span: TraceSpan, runId: string, own: readonly TraceNode[], approval: TraceSpan | undefined): TraceNode {
    const { attrs = {} } = span;
    const childId = text(attrs["childRunId"]);
    const child = childId === undefined ? undefined : this.runs.get(childId);
    // The root of the subagent is the call itself: one row for both.
    const under = child === undefined ? own : [...own, ...this.run(child).flatMap((root) => root.children)];
    const children = byStart(under);
    const kind = kindOf(span, children.length > 0);
    // A subagent waits as its own run says; the call of it only says that it is open.
    const waits = span.endAt === undefined ? waitIn(child?.spans[0] ?? span) : undefined;
    const status = waits === undefined ? statusOf(span, kind) : "waiting";
    const startMs = Date.parse(span.startAt);
    const interruptedAt = text(attrs["interruptedAt"]);
    const stoppedAt = span.endAt ?? (status === "interrupted" ? interruptedAt : undefined);
    const endMs = Math.max(stoppedAt === undefined ? this.lastMs : Date.parse(stoppedAt), startMs);
    if (isWork(span, kind)) this.work.push([startMs, endMs]);
    return new Node(span, runId, kind, status, startMs, endMs, children, this.wording, waits, approval);
  }
}

/** A node of the tree. Its words are made when they are read: most spans of a long trace are never looked at. */
class Node implements TraceNode {
  readonly id: string;
  readonly attempt: number;
  readonly tokens: number;
  readonly costMicros: number | undefined;
  readonly waitsMs: number | undefined;
  private told: Pick<TraceNode, "name" | "about" | "words"> | undefined;

  constructor(
    readonly span: TraceSpan,
    readonly runId: string,
    readonly kind: SpanKind,
    readonly status: SpanStatus,
    readonly startMs: number,
    readonly endMs: number,
    readonly children: readonly TraceNode[],
    private readonly wording: SpanWording,
    private readonly waits: Wait | undefined,
    private readonly approval: TraceSpan | undefined,
  ) {
    const { spanId, attrs = {} } = span;
    let tokens = (count(attrs["inputTokens"]) ?? 0) + (count(attrs["outputTokens"]) ?? 0);
    let cost = count(attrs["costMicros"]);
    for (const child of children) {
      tokens += child.tokens;
      if (child.costMicros !== undefined) cost = (cost ?? 0) + child.costMicros;
    }
    this.id = spanId;
    this.waitsMs = waits?.sinceMs;
    this.attempt = count(attrs["attempt"]) ?? 1;
    this.tokens = tokens;
    this.costMicros = cost;
  }

  get name(): string {
    return this.tell().name;
  }

  get about(): string {
    return this.tell().about;
  }

  get words(): string {
    return this.tell().words;
  }

  private tell(): Pick<TraceNode, "name" | "about" | "words"> {
    if (this.told !== undefined) return this.told;
    const { kinds, status: states } = this.wording.labels.trace;
    const name = nameOf(this.span, this.kind, this.wording);
    const about = [
      this.waits === undefined ? "" : waitWords(this.waits, this.wording),
      aboutOf(this.span, this.kind, this.children, this.wording, this.approval),
    ]
      .filter((part) => part !== "")
      .join(" · ");
    const searchText = `${name} ${about} ${states[this.status]} ${kinds[this.kind]}`.toLowerCase();
    return (this.told = { name, about, words: searchText });
  }
}

/** The wait of a run: its cause, its start and its end. */
interface Wait {
  readonly on: string;
  readonly sinceMs: number;
  readonly until: string | undefined;
}

function waitIn({ attrs = {} }: TraceSpan): Wait | undefined {
  const since = text(attrs["waitsSince"]);
  if (since === undefined) return undefined;
  return { on: text(attrs["waitsOn"]) ?? "", sinceMs: Date.parse(since), until: text(attrs["waitsUntil"]) };
}

function waitWords({ on, until }: Wait, { labels: { trace: labels }, formatMoment }: SpanWording): string {
  const what = labelOf(labels.waitsOn, on);
  return until === undefined ? labels.waitsFor(what) : labels.waitsUntil(labels.waitsFor(what), formatMoment(until));
}

/** The run that a trace is of. */
export function runIdOf({ trace, spans }: TraceInfo): string {
  return trace?.traceId ?? spans.find(({ parentId }) => parentId === undefined)?.spanId ?? "";
}

function byStart(nodes: readonly TraceNode[]): readonly TraceNode[] {
  return nodes.length < 2 ? nodes : nodes.toSorted((node, other) => node.startMs - other.startMs);
}

function kindOf({ name, attrs }: TraceSpan, hasChildren: boolean): SpanKind {
  if (name === "run" || attrs?.["childRunId"] !== undefined || attrs?.["childSessionId"] !== undefined) return "agent";
  if (name.startsWith("llm.")) return "model";
  // A tool with calls of its own is a program.
  if (name.startsWith("tool.")) return hasChildren || attrs?.["toolName"] === "run_code" ? "code" : "tool";
  return name.startsWith("wait") ? "wait" : "other";
}

function statusOf({ name, endAt, attrs = {} }: TraceSpan, kind: SpanKind): SpanStatus {
  const status = text(attrs["status"]);
  if (endAt === undefined) {
    if (attrs["interruptedAt"] !== undefined) return "interrupted";
    // A call has an effect from when it is executed; before that it waits for a person or for its turn.
    const isBegun = attrs["effect"] !== undefined || attrs["childSessionId"] !== undefined;
    return kind === "wait" || (name.startsWith("tool.") && !isBegun) ? "waiting" : "running";
  }
  if (status === "skipped") return "skipped";
  if (status === "rejected") return "denied";
  if (attrs["code"] === "cancelled") return "stopped";
  if (attrs["interrupted"] === true) return kind === "wait" ? "stopped" : "interrupted";
  if (kind === "wait") return attrs["outcome"] === "denied" ? "denied" : "done";
  return status === "failed" || attrs["code"] !== undefined || attrs["error"] !== undefined ? "failed" : "done";
}

/** Whether a span is time in which something is done; what stands around others and waits is not. */
function isWork({ attrs = {} }: TraceSpan, kind: SpanKind): boolean {
  // A call that a journal tells of has an effect once it is executed.
  if (kind === "tool") return attrs["effect"] !== undefined || attrs["kind"] === undefined;
  return kind === "model" || kind === "other";
}

function nameOf({ name, attrs = {} }: TraceSpan, kind: SpanKind, { labels, formatCount }: SpanWording): string {
  const traceLabels = labels.trace;
  switch (kind) {
    case "agent":
      return text(attrs["name"]) ?? text(attrs["agentId"]) ?? text(attrs["toolName"]) ?? name;
    case "model": {
      const step = count(attrs["stepIndex"]);
      return traceLabels.modelCall(step === undefined ? undefined : formatCount(step + 1));
    }
    case "tool":
    case "code":
      return text(attrs["toolName"]) ?? name.slice(name.indexOf(":") + 1);
    case "wait": {
      const inputKind = text(attrs["kind"]) ?? "";
      const label = Object.hasOwn(traceLabels.waits, inputKind)
        ? labelOf(traceLabels.waits, inputKind)
        : traceLabels.wait;
      const tool = text(attrs["toolName"]);
      return tool === undefined || attrs["kind"] === "question" ? label : traceLabels.waitOf(label, tool);
    }
    case "other":
      return name;
  }
}

function aboutOf(
  { name, attrs = {} }: TraceSpan,
  kind: SpanKind,
  children: readonly TraceNode[],
  wording: SpanWording,
  approval: TraceSpan | undefined,
): string {
  const { labels, formatCount } = wording;
  const traceLabels = labels.trace;
  const parts: (string | undefined)[] = [];
  const message = text(attrs["message"]) ?? text(attrs["code"]);
  const isBad = attrs["code"] !== undefined && attrs["code"] !== "cancelled";
  if (isBad && message !== undefined) parts.push(withoutClass(message));
  switch (kind) {
    case "agent": {
      const steps = children.filter((child) => child.kind === "model").length;
      parts.push(name === "run" ? text(attrs["modelId"]) : traceLabels.subagent);
      if (steps > 0) parts.push(traceLabels.steps(steps, formatCount(steps)));
      parts.push(approvedBy(approval, wording), text(attrs["arguments"]));
      break;
    }
    case "model":
      parts.push(text(attrs["modelId"]), ...usage(attrs, wording));
      break;
    case "code":
      if (children.length > 0) parts.push(traceLabels.calls(children.length, formatCount(children.length)));
      break;
    case "tool":
      parts.push(text(attrs["arguments"]), approvedBy(approval, wording));
      parts.push(known(traceLabels.modes, attrs["mode"]), attrs["effect"] === "once" ? traceLabels.once : undefined);
      break;
    case "wait": {
      const by = text(attrs["responder"]);
      const outcome = known(traceLabels.outcomes, attrs["outcome"]);
      parts.push(
        [outcome, by === undefined ? undefined : traceLabels.by(by)].filter((part) => part !== undefined).join(" "),
      );
      // The option of an approval says the same as its outcome.
      if (attrs["kind"] !== "approval") parts.push(text(attrs["optionId"]));
      break;
    }
    case "other":
      break;
  }
  return parts.filter((part) => part !== undefined && part !== "").join(" · ");
}

/** Who approved a call, and how long it waited for that; nothing of a call that was not. */
function approvedBy(
  approval: TraceSpan | undefined,
  { labels: { trace: labels }, formatDuration }: SpanWording,
): string | undefined {
  const { startAt, endAt, attrs = {} } = approval ?? {};
  if (startAt === undefined || endAt === undefined || attrs["outcome"] !== "approved") return undefined;
  return labels.approvedBy(text(attrs["responder"]), formatDuration(Date.parse(endAt) - Date.parse(startAt)));
}

function usage(
  attrs: Readonly<Record<string, JsonValue>>,
  { labels: { trace: labels }, formatCount, formatShort }: SpanWording,
): (string | undefined)[] {
  const [input, cached, thought] = [attrs["inputTokens"], attrs["cacheReadTokens"], attrs["reasoningTokens"]].map(
    count,
  );
  return [
    cached !== undefined && cached > 0 && input !== undefined && input > 0
      ? labels.cached(formatCount(Math.round((Math.min(cached, input) / input) * 100)))
      : undefined,
    thought !== undefined && thought > 0 ? labels.thinking(formatShort(thought)) : undefined,
  ];
}

function known(labels: Readonly<Record<string, string>>, word: JsonValue | undefined): string | undefined {
  return typeof word === "string" ? labelOf(labels, word) : undefined;
}

function text(value: JsonValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function count(value: JsonValue | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function merged(intervals: readonly Interval[]): readonly Interval[] {
  const sorted = intervals.toSorted(([first], [other]) => first - other);
  const joined: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

// The axis.

/** A wait that is folded takes this part of the time of all work. */
const FOLDED_SHARE = 0.06;
const FOLDED_MS_MIN = 20;

/** Where a moment stands on the axis: milliseconds from its beginning, with waits folded or not. */
export interface Axis {
  readonly wholeMs: number;
  readonly at: (ms: number) => number;
}

/** The axis of a trace. Folded, times in which nothing works are short, so that work can be seen. */
export function axisOf({ startMs, endMs, busy }: TraceShape, isFolded: boolean): Axis {
  const whole = Math.max(endMs - startMs, 1);
  const workMs = busy.reduce((total, [from, to]) => total + to - from, 0);
  if (!isFolded || workMs === 0) return { wholeMs: whole, at: (ms) => Math.min(Math.max(ms - startMs, 0), whole) };
  const gapMs = Math.max(workMs * FOLDED_SHARE, FOLDED_MS_MIN);
  // Each piece: where it begins in time and on the axis, and how much of the axis a millisecond takes.
  const pieces: { readonly from: number; readonly place: number; readonly scale: number }[] = [];
  let [from, offset] = [startMs, 0];
  const add = (to: number, isBusy: boolean): void => {
    const size = to - from;
    if (size <= 0) return;
    const scale = isBusy || size <= gapMs ? 1 : gapMs / size;
    pieces.push({ from, place: offset, scale });
    offset += size * scale;
    from = to;
  };
  for (const [begin, end] of busy) {
    add(begin, false);
    add(end, true);
  }
  add(endMs, false);
  const at = (ms: number): number => {
    let [low, high] = [0, pieces.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((pieces[middle]?.from ?? 0) <= ms) low = middle;
      else high = middle - 1;
    }
    const piece = pieces[low];
    return piece === undefined ? 0 : Math.min(Math.max(piece.place + (ms - piece.from) * piece.scale, 0), offset);
  };
  return { wholeMs: Math.max(offset, 1), at };
}

const STEPS = [1, 2, 5] as const;

/** Round places on a part of an axis, about as many as wanted, with their names. */
export function ticksOf(
  fromMs: number,
  toMs: number,
  tickCount: number,
  name: (ms: number) => string = FORMATS.formatDuration,
): readonly (readonly [ms: number, label: string])[] {
  const rough = Math.max((toMs - fromMs) / tickCount, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (STEPS.find((factor) => factor * power >= rough) ?? 10) * power;
  const ticks: (readonly [number, string])[] = [];
  for (let ms = Math.ceil(fromMs / step) * step; ms <= toMs; ms += step) ticks.push([ms, name(ms)]);
  return ticks;
}

// The rows of a tree that are seen.

/** A node in a list of rows. */
export interface TraceRow {
  readonly node: TraceNode;
  readonly depth: number;
  /** The row above it in the tree; -1 at the top. */
  readonly parentAt: number;
  readonly isOpen: boolean;
}

/** Which rows are wanted. */
export interface RowFilter {
  readonly closed: ReadonlySet<string>;
  /** Words that a row must have. */
  readonly find?: string | undefined;
  readonly failedOnly?: boolean | undefined;
}

/** Whether a person should look at a span: it failed, or its outcome is unknown. */
export function isFailed({ status }: TraceNode): boolean {
  return status === "failed" || status === "interrupted";
}

/** Whether a span failed by itself, and not because of one below it. */
export function isCause(node: TraceNode): boolean {
  return isFailed(node) && !node.children.some(hasFailed);
}

function hasFailed(node: TraceNode): boolean {
  return isFailed(node) || node.children.some(hasFailed);
}

/** The words of an error, without the class that a program raised: a row has room for few words. */
export function withoutClass(message: string): string {
  return message.replace(/^(?:[A-Za-z_]\w*\.)+[A-Z]\w*: (?=\S)/u, "");
}

/** Whether a node is meant by what was typed. */
export function isFound(node: TraceNode, find: string): boolean {
  const needle = find.trim().toLowerCase();
  if (needle === "") return false;
  return node.words.includes(needle);
}

/** The rows of a tree, top down. With a filter, nodes that fit and those above them, all opened. */
export function rowsOf(roots: readonly TraceNode[], { closed, find = "", failedOnly = false }: RowFilter): TraceRow[] {
  const isFiltered = find.trim() !== "" || failedOnly;
  const keeps = new Map<TraceNode, boolean>();
  const keep = (node: TraceNode): boolean => {
    const fits = (find.trim() === "" || isFound(node, find)) && (!failedOnly || isFailed(node));
    const below = node.children.map(keep);
    const isKept = fits || below.includes(true);
    keeps.set(node, isKept);
    return isKept;
  };
  if (isFiltered) roots.forEach(keep);
  const rows: TraceRow[] = [];
  const add = (node: TraceNode, depth: number, parentAt: number): void => {
    if (isFiltered && keeps.get(node) !== true) return;
    const isOpen = isFiltered || !closed.has(node.id);
    const at = rows.push({ node, depth, parentAt, isOpen }) - 1;
    if (isOpen) for (const child of node.children) add(child, depth + 1, at);
  };
  for (const root of roots) add(root, 0, -1);
  return rows;
}
