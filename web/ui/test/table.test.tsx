import { withHeight } from "./dom.js";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { useState, type ReactNode } from "react";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ColumnMenu, DataTable, useColumns, type TableColumn, type TableSort } from "../src/index.js";

interface Row {
  readonly id: string;
  readonly cost: number;
}

const COLUMNS: readonly TableColumn<Row>[] = [
  { id: "name", label: "Name", width: 200, cell: ({ id }) => id },
  { id: "cost", label: "Cost", width: 80, isNumber: true, isSortable: true, cell: ({ cost }) => cost },
  { id: "error", label: "Error", width: 80, isHidden: true, cell: () => "none" },
];
const ROWS: readonly Row[] = Array.from({ length: 1_000 }, (_, at) => ({ id: `row ${at}`, cost: at }));

let opened: string[] = [];
let sorts: TableSort[] = [];

function Table(): ReactNode {
  const layout = useColumns("test");
  const [sort, setSort] = useState<TableSort>({ id: "cost", isAscending: false });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  return (
    <>
      <ColumnMenu columns={COLUMNS} layout={layout} />
      <p>{chosen.size} chosen</p>
      <DataTable
        label="Rows"
        rows={ROWS}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        onOpen={({ id }) => opened.push(id)}
        sort={sort}
        onSort={(next) => {
          sorts.push(next);
          setSort(next);
        }}
        chosen={chosen}
        onChoose={setChosen}
        layout={layout}
      />
    </>
  );
}

beforeEach(() => {
  opened = [];
  sorts = [];
  localStorage.clear();
  withHeight(400);
});
afterEach(cleanup);

it("few of many rows are drawn, and each knows its place", () => {
  render(<Table />);
  expect(screen.getByRole("grid", { name: "Rows" }).getAttribute("aria-rowcount")).toBe("1001");
  const rows = screen.getAllByRole("row");
  expect(rows.length).toBeLessThan(100);
  expect(rows[1]?.getAttribute("aria-rowindex")).toBe("2");
});

it("arrow keys go from row to row, Enter opens, Space chooses", async () => {
  const user = userEvent.setup();
  render(<Table />);
  const [, first] = screen.getAllByRole("row");
  first?.focus();
  await user.keyboard("{ArrowDown}{ArrowDown}{ArrowUp}{Enter}");
  expect(opened).toEqual(["row 1"]);
  await user.keyboard(" ");
  screen.getByText("1 chosen");
  await user.keyboard(" ");
  screen.getByText("0 chosen");
  await user.click(screen.getByRole("checkbox", { name: "Choose all rows" }));
  screen.getByText("1000 chosen");
  await user.click(screen.getByText("row 2"));
  expect(opened).toEqual(["row 1", "row 2"]);
});

it("a heading sorts, and once more the other way round", async () => {
  const user = userEvent.setup();
  render(<Table />);
  const heading = screen.getByRole("columnheader", { name: /Cost/u });
  expect(heading.getAttribute("aria-sort")).toBe("descending");
  await user.click(screen.getByRole("button", { name: "Cost" }));
  await user.click(screen.getByRole("button", { name: "Cost" }));
  expect(sorts.map(({ isAscending }) => isAscending)).toEqual([true, false]);
});

it("columns are chosen and resized by keys, also for the next visit", async () => {
  const user = userEvent.setup();
  const { unmount } = render(<Table />);
  expect(screen.queryByRole("columnheader", { name: /Error/u })).toBeNull();
  await user.click(screen.getByRole("button", { name: "Columns" }));
  await user.click(screen.getByRole("menuitemcheckbox", { name: "Error" }));
  await user.keyboard("{Escape}");
  const handle = screen.getByRole("separator", { name: "Width of Cost" });
  handle.focus();
  await user.keyboard("{ArrowRight}{ArrowRight}{ArrowLeft}");
  expect(handle.getAttribute("aria-valuenow")).toBe("96");
  await user.keyboard("{ArrowLeft}".repeat(9));
  expect(handle.getAttribute("aria-valuenow")).toBe("48");
  await user.keyboard("{ArrowRight}{ArrowRight}{ArrowRight}");
  unmount();
  render(<Table />);
  screen.getByRole("columnheader", { name: /Error/u });
  expect(screen.getByRole("separator", { name: "Width of Cost" }).getAttribute("aria-valuenow")).toBe("96");
  localStorage.setItem("windlass-columns-test", "no JSON");
  cleanup();
  render(<Table />);
  expect(screen.queryByRole("columnheader", { name: /Error/u })).toBeNull();
});

it("a column is as wide as its edge is dragged, within its limits, until the pointer is released", () => {
  render(<Table />);
  const handle = screen.getByRole("separator", { name: "Width of Name" });
  handle.setPointerCapture = () => undefined;
  const drag = (clientX: number): string | null => {
    fireEvent.pointerMove(handle, { clientX });
    return handle.getAttribute("aria-valuenow");
  };
  expect(drag(300)).toBe("200");
  fireEvent.pointerDown(handle, { clientX: 200 });
  expect([drag(250), drag(150), drag(-999), drag(9_999)]).toEqual(["250", "150", "48", "900"]);
  fireEvent.pointerUp(handle);
  expect(drag(250)).toBe("900");
});
