/** Small plots, drawn as SVG. */
import { CARD, classes } from "@windlass/ui";
import type { ReactNode } from "react";

const WIDTH = 240;
const HEIGHT = 64;
const GAP = 1;
/** Dots at the ends are seen whole. */
const EDGE = 3;

/** A row of values over time. */
export interface Series {
  readonly label: string;
  /** One for each part of the time; undefined where there is none. */
  readonly values: readonly (number | undefined)[];
  /** A class for what is drawn. */
  readonly color: string;
}

interface PlotProps {
  readonly title: string;
  /** The number that sums it up. */
  readonly total: string;
  readonly series: readonly Series[];
  readonly kind: "bars" | "lines";
  readonly format: (value: number) => string;
  /** What the two ends of the time are called. */
  readonly ends: readonly [from: string, until: string];
  readonly className?: string | undefined;
}

function mostOf(values: Series["values"]): number {
  return Math.max(...values.filter((value) => value !== undefined), 0);
}

/** A plot with its numbers in words: what cannot be seen is in the label. */
export function Plot({ title, total, series, kind, format, ends, className }: PlotProps): ReactNode {
  const most = Math.max(...series.map(({ values }) => mostOf(values)), 0);
  const words = series.map(({ label, values }) => `${label}: at most ${format(mostOf(values))}`).join("; ");
  return (
    <figure className={classes(CARD, "flex min-w-0 flex-col gap-3 p-4 max-sm:p-3", className)}>
      <figcaption className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="text-xs text-agent-muted">{title}</span>
        {series.length > 1 && (
          <span className="flex gap-3 text-xs text-agent-muted">
            {series.map(({ label, color }) => (
              <span key={label} className="inline-flex items-center gap-1.5">
                <span aria-hidden className={classes("size-2 rounded-full bg-current", color)} />
                {label}
              </span>
            ))}
          </span>
        )}
        <span className="w-full text-xl font-semibold tabular-nums">{total}</span>
      </figcaption>
      <div className="relative">
        <svg
          role="img"
          aria-label={`${title}, ${total}. ${words}`}
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          className="h-24 w-full"
        >
          <line
            x1="0"
            x2={WIDTH}
            y1="0.5"
            y2="0.5"
            className="stroke-agent-border"
            strokeWidth="1"
            strokeDasharray="2 4"
            vectorEffect="non-scaling-stroke"
          />
          {series.map((one) =>
            kind === "bars" ? (
              <Bars key={one.label} series={one} most={most} />
            ) : (
              <Line key={one.label} series={one} most={most} />
            ),
          )}
          <line
            x1="0"
            x2={WIDTH}
            y1={HEIGHT - 0.5}
            y2={HEIGHT - 0.5}
            className="stroke-agent-border"
            strokeWidth="1"
            vectorEffect="non-scaling-stroke"
          />
        </svg>
        {most > 0 && (
          <span aria-hidden className="absolute top-1 left-0 rounded bg-agent-surface pr-1 text-xs text-agent-muted">
            {format(most)}
          </span>
        )}
      </div>
      <p className="flex justify-between gap-2 text-xs text-agent-muted">
        <span>{ends[0]}</span>
        <span>{ends[1]}</span>
      </p>
    </figure>
  );
}

interface DrawnProps {
  readonly series: Series;
  readonly most: number;
}

function Bars({ series: { values, color }, most }: DrawnProps): ReactNode {
  const width = WIDTH / Math.max(values.length, 1);
  return (
    <g className={color} fill="currentColor">
      {values.map((value, at) => {
        const height = most === 0 ? 0 : ((value ?? 0) / most) * (HEIGHT - 2);
        return height === 0 ? null : (
          <rect
            key={at}
            x={at * width + GAP / 2}
            y={HEIGHT - height}
            width={Math.max(width - GAP, 0.5)}
            height={height}
          />
        );
      })}
    </g>
  );
}

/** A line through what is there; a lonely value is a dot. */
function Line({ series: { values, color }, most }: DrawnProps): ReactNode {
  const step = (WIDTH - 2 * EDGE) / Math.max(values.length - 1, 1);
  const points = values.map((value, at) =>
    value === undefined
      ? undefined
      : ([EDGE + at * step, HEIGHT - 2 - (most === 0 ? 0 : (value / most) * (HEIGHT - 6))] as const),
  );
  const path = points
    .map((point, at) =>
      point === undefined
        ? ""
        : `${points[at - 1] === undefined ? "M" : "L"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`,
    )
    .join("");
  const dots = points
    .filter((point, at) => point !== undefined && points[at - 1] === undefined && points[at + 1] === undefined)
    .filter((point) => point !== undefined);
  return (
    <g className={color} fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round">
      <path d={path} vectorEffect="non-scaling-stroke" />
      {dots.map(([x, y]) => (
        <path key={x} d={`M${x.toFixed(1)} ${y.toFixed(1)}h0.01`} strokeWidth="5" vectorEffect="non-scaling-stroke" />
      ))}
    </g>
  );
}
