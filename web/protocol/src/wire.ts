/** Building blocks of the generated validators. */
import { z } from "zod";

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Any JSON value; the codec has already refused what JSON cannot hold. */
export const Json = z.custom<JsonValue>((value) => value !== undefined, "expected a value");

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Any JSON object, kept as it is. */
export const JsonObject = z.custom<JsonObject>(isObject, "expected an object");

/** An object in which every value fits `item`, kept as it is. */
export function record<T extends z.ZodType>(item: T): z.ZodType<Record<string, z.infer<T>>> {
  return z.custom<Record<string, z.infer<T>>>(isObject, "expected an object").superRefine((value, ctx) => {
    for (const [key, inner] of Object.entries(value)) addIssues(ctx, key, item.safeParse(inner));
  });
}

/** An array, kept as it is; it is validated unless `fits` takes every item, which must say yes to valid ones only. */
export function quickArray<T extends z.ZodType>(item: T, fits: (item: JsonValue) => boolean): z.ZodType<z.infer<T>[]> {
  const array = z.array(item);
  return z.custom<z.infer<T>[]>(Array.isArray, "expected an array").superRefine((value, ctx) => {
    if ((value as JsonValue[]).every(fits)) return;
    for (const issue of array.safeParse(value).error?.issues ?? []) {
      ctx.addIssue({ code: "custom", message: issue.message, path: [...issue.path] });
    }
  });
}

type OpenObject<S extends z.core.$ZodLooseShape> = z.ZodObject<S, z.core.$loose>;

/** Keeps an unknown field named `__proto__`, which Zod drops; JSON gives it no meaning. */
const OpenObject = z.core.$constructor<OpenObject<z.core.$ZodLooseShape>>("OpenObject", (schema, def) => {
  z.ZodObject.init(schema, def);
  const parse = schema._zod.parse.bind(schema._zod);
  schema._zod.parse = (payload, ctx) => {
    const input: unknown = payload.value;
    const result = parse(payload, ctx);
    if (isObject(input) && Object.hasOwn(input, "__proto__") && !(result instanceof Promise)) {
      const kept = { value: input["__proto__"], enumerable: true, writable: true, configurable: true };
      Object.defineProperty(result.value, "__proto__", kept);
    }
    return result;
  };
});

/** An object that keeps fields it does not know. */
export function open<S extends z.core.$ZodLooseShape>(shape: S): OpenObject<S> {
  const def = z.looseObject(shape).def;
  return new OpenObject(def) as unknown as OpenObject<S>;
}

interface TextLimits {
  readonly min?: number;
  readonly max?: number;
  readonly pattern?: RegExp;
  /** The form that the pattern asks for, in words. */
  readonly says?: string;
}

/** Text within limits. Length counts code points, as JSON Schema says, not UTF-16 units. */
export function text(limits: TextLimits): z.ZodString {
  return z.string().check((ctx) => {
    const problem = textProblem(ctx.value, limits);
    if (problem !== undefined) ctx.issues.push({ code: "custom", message: problem, input: ctx.value });
  });
}

function textProblem(value: string, { min = 0, max = Infinity, pattern, says }: TextLimits): string | undefined {
  const length = max === Infinity && min === 0 ? 0 : Array.from(value).length;
  if (length < min) return `expected at least ${min} characters`;
  if (length > max) return `expected at most ${max} characters`;
  if (pattern && !pattern.test(value)) return `expected ${says ?? "another form of text"}`;
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
    if (shape) addIssues(ctx, "data", shape.safeParse(value["data"]));
  };
}

function addIssues(ctx: z.RefinementCtx, key: string, result: z.ZodSafeParseResult<unknown>): void {
  for (const issue of result.error?.issues ?? []) {
    ctx.addIssue({ code: "custom", message: issue.message, path: [key, ...issue.path] });
  }
}
