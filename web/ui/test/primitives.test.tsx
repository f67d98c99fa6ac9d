// @vitest-environment happy-dom
import { cleanup, render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Badge, Button, Chip, CodeView, Dialog, JsonView, SessionList, type Transport } from "../src/index.js";
import { Coloured, tokensOf } from "../src/primitives.js";

afterEach(cleanup);

describe("the colours of code", () => {
  const kinds = (text: string, language: string): readonly (readonly [string, string])[] =>
    tokensOf(text, language).flatMap(([piece, kind]) => (kind === undefined ? [] : [[piece, kind]]));

  it("are those of comments, strings, numbers and keywords", () => {
    expect(kinds('def f(n):  # "one"\n    return n1 + 2.5  # x', "python")).toEqual([
      ["def", "keyword"],
      ['# "one"', "comment"],
      ["return", "keyword"],
      ["2.5", "number"],
      ["# x", "comment"],
    ]);
    expect(kinds('const a = "// no"; // yes', "ts").map(([, kind]) => kind)).toEqual(["keyword", "string", "comment"]);
    expect(kinds('{"a": [1, true, "b \\" c"]}', "json").map(([piece]) => piece)).toEqual([
      '"a"',
      "1",
      "true",
      '"b \\" c"',
    ]);
    expect(kinds("SELECT name FROM t -- all", "sql").map(([, kind]) => kind)).toEqual([
      "keyword",
      "keyword",
      "comment",
    ]);
  });

  it("never change the text, whatever it is, and unknown languages have none", () => {
    const texts = ["", "'", '"""', "/* open", "#", "`${", "a\n\tb  ", "1.2.3", "\\", "\u202e<b>", "x".repeat(5_000)];
    for (const language of ["python", "ts", "json", "sql", "klingon"])
      for (const text of texts)
        expect(
          tokensOf(text, language)
            .map(([piece]) => piece)
            .join(""),
        ).toBe(text);
    expect(tokensOf("return 1", "klingon")).toEqual([["return 1", undefined]]);
  });
});

describe("views of code and values", () => {
  it("a value is JSON, a text is itself, and a large one is whole on demand", async () => {
    render(<JsonView title="Result" value={{ receipt: "re_1" }} />);
    expect(screen.getByRole("group", { name: "Result" }).textContent).toBe('{\n  "receipt": "re_1"\n}');
    cleanup();
    const text = `${"x".repeat(30_000)}end`;
    render(<CodeView title="Log" text={text} />);
    expect(screen.getByRole("group", { name: "Log" }).textContent).toHaveLength(20_000);
    await userEvent.click(screen.getByRole("button", { name: "Show all 30 kB" }));
    expect(screen.getByRole("group", { name: "Log" }).textContent).toBe(text);
  });

  it("show what hides, say when a text cannot be copied, and leave a very long one without colours", async () => {
    const user = userEvent.setup();
    render(<CodeView title="Log" text={"a\u202eb\u200bc"} />);
    expect(screen.getByRole("group", { name: "Log" }).textContent).toBe("a\\u202eb\\u200bc");
    // A page that came over plain HTTP has none.
    vi.stubGlobal("navigator", {});
    await user.click(screen.getByRole("button", { name: "Copy" }));
    await screen.findByRole("button", { name: "Cannot copy" });
    vi.unstubAllGlobals();
    cleanup();
    const { container } = render(<Coloured text={"[1, 2]\n".repeat(20_000)} language="json" />);
    expect(container.querySelector("span")).toBeNull();
  });
});

describe("controls", () => {
  it("a button submits no form unless it says so", () => {
    render(<Button variant="primary">Go</Button>);
    expect(screen.getByRole("button").getAttribute("type")).toBe("button");
  });

  it("a chip says whether it is on, and a badge says its state in words", async () => {
    const onChange = vi.fn();
    render(
      <>
        <Chip isOn onChange={onChange}>
          fold waits
        </Chip>
        <Badge tone="bad">failed</Badge>
      </>,
    );
    expect(screen.getByRole("button", { pressed: true }).textContent).toBe("fold waits");
    await userEvent.click(screen.getByRole("button"));
    expect(onChange).toHaveBeenCalledWith(false);
    expect(screen.getByText("failed").className).toContain("text-agent-danger-text");
  });

  it("a dialog has a name, is closed by Escape, and writes no style into the page", async () => {
    const onClose = vi.fn();
    const before = document.querySelectorAll("style").length;
    render(
      <Dialog title="Stop the run?" isOpen onClose={onClose}>
        <Button>Stop</Button>
      </Dialog>,
    );
    expect(screen.getByRole("dialog", { name: "Stop the run?" })).toBeTruthy();
    expect(document.querySelectorAll("style")).toHaveLength(before);
    await userEvent.keyboard("{Escape}");
    expect(onClose).toHaveBeenCalledOnce();
  });
});

it("sessions are listed with their state, and one is chosen", async () => {
  const AT = "2026-01-31T09:30:00.000Z";
  const listed = [
    { sessionId: "s1", title: "Book the hotel", status: "waiting", requestCount: 1, createdAt: AT },
    { sessionId: "s2", title: "", status: "budget_exhausted", createdAt: "2026-01-30T09:30:00.000Z" },
  ];
  const transport = { listSessions: () => Promise.resolve(listed) } as unknown as Transport;
  const onSelect = vi.fn();
  render(<SessionList transport={transport} current="s1" onSelect={onSelect} />);
  await userEvent.click(await screen.findByRole("button", { name: /Untitled.*budget used up.*30 Jan 2026/u }));
  expect(onSelect).toHaveBeenCalledWith("s2");
  expect(screen.getByRole("button", { current: true }).textContent).toMatch(/Book the hotel.*waiting for you/u);
});
