/** Values over time as bars or lines, with axes, values under the pointer, and the same by keyboard. */
import { classes, FOCUS } from "@windlass/ui";
import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

/** Colours of series, in their order; the last one is that of everything else. */
const COLOURS = [
  "text-agent-kind-model",
  "text-agent-kind-tool",
  "text-agent-kind-code",
  "text-agent-kind-agent",
  "text-agent-kind-wait",
  "text-agent-success",
  "text-agent-danger",
  "text-agent-accent",
  "text-agent-muted",
] as const;
const DAY_S = 86_400;
const HEIGHT_PX = 132;
const AXIS_PX = 24;
const SCALE_PX = 60;
const EDGE_PX = 18;
/** Steps that a scale may end at, times a power of ten: half of each is round too. */
const NICE = [1, 2, 4, 6, 8, 10];
const [SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS] = [1_000, 60_000, 3_600_000, 86_400_000];
/** Times that a scale may end at, milliseconds; below and above them, round numbers of the unit. */
const NICE_MS = [
  ...[1, 2, 4, 6, 10, 20, 30, 40].map((count) => count * SECOND_MS),
  ...[1, 2, 4, 6, 10, 20, 30, 40].map((count) => count * MINUTE_MS),
  ...[1, 2, 4, 6, 12].map((count) => count * HOUR_MS),
];

/** One row of values. */
export interface ChartSeries {
  readonly label: string;
  /** One for each interval; undefined where there is none. */
  readonly values: readonly (number | undefined)[];
  /** Words beside each value, such as the counts of a share. */
  readonly notes?: readonly (string | undefined)[] | undefined;
  /** The number of the whole time. */
  readonly total?: string | undefined;
  /** A class that sets a colour; that of its place when absent. */
  readonly color?: string | undefined;
}

export interface ChartProps {
  /** The name of the chart. */
  readonly label: string;
  /** Bars stand on each other, lines do not. */
  readonly kind: "bars" | "lines";
  /** The starts of the intervals, seconds since 1970. */
  readonly times: readonly number[];
  /** Seconds of an interval. */
  readonly bucketS: number;
  readonly series: readonly ChartSeries[];
  readonly format: (value: number) => string;
  /** The end of a scale that has room for a value; a round number when absent. */
  readonly scale?: ((most: number) => number) | undefined;
  /** Opens what is behind an interval. */
  readonly onPick: (at: number) => void;
}

/** The colour of a series: its own, or that of its place. */
export function colorOf({ color }: ChartSeries, at: number): string {
  return color ?? COLOURS[Math.min(at, COLOURS.length - 1)] ?? COLOURS[0];
}

/** The end of a scale that has room for a value: a round number. */
export function niceMax(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return (NICE.find((step) => step * power >= most) ?? 10) * power;
}

/** The end of a scale of whole numbers: half of it is whole too. */
export function niceCount(most: number): number {
  return Math.max(niceMax(most), 2);
}

/** The end of a scale of millionths of a dollar. */
export function niceMicros(most: number): number {
  return Math.max(niceMax(most), 10_000);
}

/** The end of a scale of milliseconds: a round number of the unit that is shown. */
export function niceMs(most: number): number {
  if (most < SECOND_MS) return Math.max(niceMax(most), 10);
  return NICE_MS.find((step) => step >= most) ?? niceMax(most / DAY_MS) * DAY_MS;
}

/** A value beside a scale: without digits that say nothing. */
export function scaleText(value: number, format: (value: number) => string): string {
  if (value === 0) return "0";
  return format(value)
    .replace(/\.0+(?!\d)/u, "")
    .replace(/(\.\d\d)0+$/u, "$1");
}

/** Values on top of each other, the highest first: drawn in this order, each covers the foot of the one before. */
export function stacked(series: readonly ChartSeries[]): readonly (readonly number[])[] {
  const sums: number[][] = [];
  for (const { values } of series) {
    const below = sums.at(-1);
    sums.push(values.map((value, at) => (value ?? 0) + (below?.[at] ?? 0)));
  }
  return sums.toReversed();
}

const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** An interval in words: its day, and from when until when. */
export function intervalOf(start: number, bucketS: number): string {
  const [from, to] = [start * 1_000, (start + bucketS) * 1_000];
  return bucketS >= DAY_S
    ? `${DAY.format(from)} to ${DAY.format(to)}`
    : `${DAY.format(from)}, ${HOUR.format(from)} to ${HOUR.format(to)}`;
}

/**
 * A chart of values over time.
 *
 * It is a slider over its intervals: the pointer or the arrow keys choose one, which is told in words, and Enter or a
 * click opens the runs behind it. The canvas itself says nothing to a screen reader.
 */
export function Chart(props: ChartProps): ReactNode {
  const { label, times, bucketS, series, format, onPick } = props;
  const [at, setAt] = useState<number>();
  const [left, setLeft] = useState(0);
  const frame = useRef<HTMLDivElement>(null);
  const plot = usePlot(frame, props, (index, px) => {
    setAt(index);
    setLeft(px);
  });
  const current = Math.min(at ?? times.length - 1, times.length - 1);
  const description = [
    intervalOf(times[current] ?? 0, bucketS),
    ...series.map((line) => `${line.label} ${valueAt(line, current, format)}`),
  ].join(", ");
  const move = (next: number): void => {
    const nearest = Math.min(Math.max(next, 0), times.length - 1);
    setAt(nearest);
    const px = plot.current?.valToPos(times[nearest] ?? 0, "x") ?? 0;
    setLeft(px);
    plot.current?.setCursor({ left: px, top: 1 }, false);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: times.length - 1 }[event.key];
    if (next === undefined && event.key !== "Enter") return;
    event.preventDefault();
    if (next === undefined) onPick(current);
    else move(next);
  };
  return (
    <div
      role="slider"
      tabIndex={0}
      aria-label={`${label}: intervals`}
      aria-valuemin={0}
      aria-valuemax={Math.max(times.length - 1, 0)}
      aria-valuenow={current}
      aria-valuetext={description}
      className={classes("relative cursor-pointer rounded", FOCUS)}
      onKeyDown={onKeyDown}
      onBlur={() => {
        setAt(undefined);
        plot.current?.setCursor({ left: -1, top: -1 }, false);
      }}
      onClick={() => {
        if (at !== undefined) onPick(at);
      }}
    >
      <div ref={frame} className="h-33" />
      {at !== undefined && (
        <div
          aria-hidden
          className={classes(
            "pointer-events-none absolute -top-2 z-10 max-w-64 rounded-md border border-agent-border bg-agent-bg px-2 py-1 text-xs whitespace-nowrap shadow-lg",
            left > (plot.current?.width ?? 0) / 2 && "-translate-x-full",
          )}
          style={{ left: `${left}px` }}
        >
          <p className="text-agent-muted">{intervalOf(times[current] ?? 0, bucketS)}</p>
          {series.map((line, index) => (
            <p key={line.label} className="flex items-center gap-1.5">
              <Swatch color={colorOf(line, index)} />
              <span className="min-w-0 truncate">{line.label}</span>
              <strong className="ml-auto pl-3 tabular-nums">{valueAt(line, current, format)}</strong>
            </p>
          ))}
        </div>
      )}
    </div>
  );
}

/** The colour of a series, as a dot. */
export function Swatch({ color }: { readonly color: string }): ReactNode {
  return <span aria-hidden className={classes("size-2 shrink-0 rounded-full bg-current", color)} />;
}

/** A value of a series, with what stands behind it. */
export function valueAt({ values, notes }: ChartSeries, at: number, format: (value: number) => string): string {
  const value = values[at];
  const note = notes?.[at];
  return `${value === undefined ? "none" : format(value)}${note === undefined ? "" : ` (${note})`}`;
}

/** Draws anew whenever the values, the size or the colours of the page change. */
function usePlot(
  frame: React.RefObject<HTMLDivElement | null>,
  { kind, times, bucketS, series, format, scale = niceMax }: ChartProps,
  onHover: (at: number | undefined, leftPx: number) => void,
): React.RefObject<uPlot | null> {
  const plot = useRef<uPlot | null>(null);
  const hover = useRef(onHover);
  const scheme = useScheme();
  useEffect(() => {
    hover.current = onHover;
  });
  useLayoutEffect(() => {
    const target = frame.current;
    if (target === null) return;
    const rows = kind === "bars" ? stacked(series) : series.map(({ values }) => values);
    const colours = series.map((line, at) => seen(target, colorOf(line, at)));
    const drawn = kind === "bars" ? colours.toReversed() : colours;
    const most = scale(Math.max(...rows.flat().map((value) => value ?? 0), 0));
    const muted = seen(target, "text-agent-muted");
    const font = `11px ${getComputedStyle(target).fontFamily}`;
    const first = times[0] ?? 0;
    const last = times.at(-1) ?? 1;
    const half = kind === "bars" ? bucketS / 2 : 0;
    const isDays = last - first > 2 * DAY_S;
    const made = new uPlot(
      {
        width: target.clientWidth,
        height: HEIGHT_PX,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: kind === "lines" } },
        padding: [8, 0, 0, 0],
        scales: { x: { range: () => [first - half, last + half] }, y: { range: () => [0, most] } },
        axes: [
          {
            stroke: muted,
            font,
            size: AXIS_PX,
            gap: 4,
            space: 72,
            grid: { show: false },
            ticks: { show: false },
            values: (self, splits) =>
              // One at the left edge would be cut off.
              splits.map((s) => (self.valToPos(s, "x") < EDGE_PX ? null : (isDays ? DAY : HOUR).format(s * 1_000))),
          },
          {
            ...scaleAxis(most, format),
            stroke: muted,
            font,
            grid: { stroke: seen(target, "text-agent-border"), width: 1 },
          },
        ],
        series: [{}, ...drawn.map((color) => look(kind, color))],
        hooks: {
          setCursor: [
            (self) => {
              if (self.cursor.event == null) return;
              hover.current(self.cursor.idx ?? undefined, self.cursor.left ?? 0);
            },
          ],
        },
      },
      [[...times], ...rows.map((values) => values.map((value) => value ?? null))],
      target,
    );
    plot.current = made;
    const stop = followWidth(target, made);
    return () => {
      stop();
      made.destroy();
      plot.current = null;
    };
  }, [frame, kind, times, bucketS, series, format, scale, scheme]);
  return plot;
}

/** The axis of the values, from nothing to the most. */
function scaleAxis(most: number, format: ChartProps["format"]): uPlot.Axis {
  return {
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- a const enum of theirs: right
    side: 1,
    size: SCALE_PX,
    gap: 6,
    ticks: { show: false },
    splits: () => [0, most / 2, most],
    values: (_, splits) => splits.map((value) => scaleText(value, format)),
  };
}

/** Draws a chart as wide as its frame, whenever that changes; returns what ends it. */
function followWidth(frame: HTMLElement, plot: uPlot): () => void {
  const observer = new ResizeObserver(() => {
    if (frame.clientWidth > 0 && frame.clientWidth !== plot.width)
      plot.setSize({ width: frame.clientWidth, height: HEIGHT_PX });
  });
  observer.observe(frame);
  return () => {
    observer.disconnect();
  };
}

function look(kind: ChartProps["kind"], color: string): uPlot.Series {
  const bars = uPlot.paths.bars?.({ size: [0.78, 40], radius: 0.12 });
  return kind === "lines" || bars === undefined
    ? { stroke: color, width: 2, spanGaps: true, points: { show: true, size: 5, fill: color } }
    : { fill: color, stroke: color, width: 0, paths: bars, points: { show: false } };
}

/** A colour of the page as the canvas needs it: tokens are resolved by the browser. */
function seen(near: HTMLElement, color: string): string {
  const probe = document.createElement("span");
  probe.className = color;
  near.append(probe);
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}

/** Changes with the colours of the page. */
function useScheme(): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const bump = (): void => {
      setCount((before) => before + 1);
    };
    const system = matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(bump);
    observer.observe(document.documentElement, { attributeFilter: ["class"] });
    system.addEventListener("change", bump);
    return () => {
      observer.disconnect();
      system.removeEventListener("change", bump);
    };
  }, []);
  return count;
}
