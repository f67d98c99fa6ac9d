/** Line breaks of a model are meant: they stay, as they do in a terminal. */

interface Node {
  readonly type: string;
  readonly value?: string;
  children?: Node[];
}

/** A plugin for remark: every line break in a text is one on the page. */
export function keepBreaks(): (tree: Node) => void {
  return breakLines;
}

function breakLines(node: Node): void {
  if (node.children === undefined) return;
  node.children = node.children.flatMap(linesOf);
  node.children.forEach(breakLines);
}

function linesOf(node: Node): Node[] {
  if (node.type !== "text" || node.value?.includes("\n") !== true) return [node];
  return node.value
    .split("\n")
    .flatMap((value, at) => [
      ...(at === 0 ? [] : [{ type: "break" }]),
      ...(value === "" ? [] : [{ type: "text", value }]),
    ]);
}
