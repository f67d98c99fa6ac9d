/** The rules of schedules in words. */
import type { ScheduleInfo } from "@windlass/protocol/client";
import { formatDuration, formatWhen } from "@windlass/ui";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] as const;
const SHORT_DAYS = DAYS.map((day) => day.slice(0, 3).toUpperCase());
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
] as const;
const SHORT_MONTHS = MONTHS.map((month) => month.slice(0, 3).toUpperCase());

/** When a schedule ticks: the usual cron expressions in words, the others as they are. */
export function ruleWords({ cron, everyS, at }: Partial<Pick<ScheduleInfo, "cron" | "everyS" | "at">>): string {
  if (everyS !== undefined) return `every ${formatDuration(everyS * 1_000).replace(/\.0 s$/u, " s")}`;
  if (at !== undefined) return `once, ${Number.isNaN(Date.parse(at)) ? at : formatWhen(at)}`;
  return cron === undefined ? "never" : cronWords(cron);
}

function cronWords(cron: string): string {
  const fields = cron.trim().split(/\s+/u);
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = fields;
  const plain = `cron ${cron}`;
  if (fields.length !== 5) return plain;
  const time = timeWords(minute, hour);
  const days = dayWords(day, month, weekday);
  if (time === undefined || days === undefined) return plain;
  return days === "every day" && time.startsWith("every") ? time : `${time}, ${days}`;
}

function timeWords(minute: string, hour: string): string | undefined {
  const step = /^\*\/(\d+)$/u;
  if (minute === "*" && hour === "*") return "every minute";
  if (step.test(minute) && hour === "*") return `every ${step.exec(minute)?.[1] ?? ""} minutes`;
  if (!/^\d+$/u.test(minute)) return undefined;
  const past = minute.padStart(2, "0");
  if (hour === "*") return minute === "0" ? "every hour" : `every hour at :${past}`;
  if (step.test(hour)) return `every ${step.exec(hour)?.[1] ?? ""} hours at :${past}`;
  if (!/^\d+(,\d+)*$/u.test(hour)) return undefined;
  return `at ${hour
    .split(",")
    .map((hour) => `${hour.padStart(2, "0")}:${past}`)
    .join(" and ")}`;
}

/** A field as names; undefined if it is not a list of single values and ranges. */
function named(field: string, names: readonly string[], short: readonly string[], first: number): string | undefined {
  const nameOf = (text: string): string | undefined => {
    const at = short.indexOf(text.toUpperCase());
    return names[at >= 0 ? at : /^\d+$/u.test(text) ? (Number(text) - first) % names.length : -1];
  };
  const parts = field.split(",").map((part) => {
    const [from = "", until] = part.split("-");
    const begin = nameOf(from);
    const end = until === undefined ? begin : nameOf(until);
    if (begin === undefined || end === undefined) return undefined;
    return until === undefined ? begin : `${begin} to ${end}`;
  });
  return parts.includes(undefined) ? undefined : parts.join(", ");
}

function dayWords(day: string, month: string, weekday: string): string | undefined {
  const names: (string | undefined)[] = [];
  // With both a day of the month and a day of the week, cron takes either: that needs more than a few words.
  if (day !== "*" && weekday !== "*") return undefined;
  if (weekday !== "*") names.push(named(weekday, DAYS, SHORT_DAYS, 0));
  else if (/^\d+(,\d+)*$/u.test(day)) names.push(`on day ${day.replaceAll(",", ", ")} of the month`);
  else names.push(day === "*" ? "every day" : day === "L" ? "on the last day of the month" : undefined);
  if (month !== "*") {
    const months = named(month, MONTHS, SHORT_MONTHS, 1);
    names.push(months === undefined ? undefined : `in ${months}`);
  }
  return names.includes(undefined) ? undefined : names.join(" ");
}
