/** What the generated validators are made of; the twin of `_wire.py`. */
import { z } from "zod";

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Any JSON value; the codec has already refused what JSON cannot hold. */
export const Json = z.custom<JsonValue>((value) => value !== undefined, "expected a value");

/** Any JSON object, kept as it is. */
export const JsonObject = z.custom<JsonObject>(
  (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  "expected an object",
);

interface TextLimits {
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
}

/** Text within limits. Length counts code points, as JSON Schema says, not UTF-16 units. */
export function text(limits: TextLimits): z.ZodString {
  return z.string().check((ctx) => {
    const problem = textProblem(ctx.value, limits);
    if (problem !== undefined) ctx.issues.push({ code: "custom", message: problem, input: ctx.value });
  });
}

function textProblem(value: string, { min = 0, max = Infinity, pattern }: TextLimits): string | undefined {
  const length = max === Infinity && min === 0 ? 0 : Array.from(value).length;
  if (length < min) return `expected at least ${min} characters`;
  if (length > max) return `expected at most ${max} characters`;
  if (pattern && !pattern.test(value)) return "expected another form of text";
  return undefined;
}

type Refinement = (value: Readonly<Record<string, unknown>>, ctx: z.RefinementCtx) => void;

/** Demands exactly one of some fields; null counts as given. */
export function exactlyOne(names: readonly string[]): Refinement {
  return (value, ctx) => {
    const given = names.filter((name) => value[name] !== undefined);
    if (given.length !== 1) {
      ctx.addIssue({ code: "custom", message: `expected exactly one of ${names.join(", ")}, found ${given.length}` });
    }
  };
}

/** Demands that `data` fits the shape of a known `type`; unknown types pass. */
export function typedData(shapes: Readonly<Record<string, z.ZodType>>): Refinement {
  return (value, ctx) => {
    const shape = Object.hasOwn(shapes, String(value["type"])) ? shapes[String(value["type"])] : undefined;
    for (const issue of shape?.safeParse(value["data"]).error?.issues ?? []) {
      ctx.addIssue({ code: "custom", message: issue.message, path: ["data", ...issue.path] });
    }
  };
}
