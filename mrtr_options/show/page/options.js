// The options by behaviour: for each the fewest faults that cause each failure.

const CLIENTS = { retry: "resends the lost request", "call again": "calls the tool again, by itself or when told to (today's)" };
const GROUPS = [["", "Options"], ["single-use", "In the single-use guard"], ["legacy-shim", "In the shim for old clients"], ["call-key", "Called with a call key"]];

const erasOf = (state) => (state.old === "yes" ? ["modern", "legacy"] : ["modern"]);
const sizeOf = (faults) => (faults ? faults.split(" ").length : 0);

/** One cell: the weakest set of faults over the eras in question, and in which era. */
function weakestOf(data, name, anomaly, state) {
  const cells = erasOf(state).map((era) => {
    const world = worldOf(data, name, { ...state, era });
    const faults = world?.weakest[anomaly];
    return { era, world, faults, size: faults === undefined ? Infinity : sizeOf(faults) };
  }).filter(({ world }) => world);
  if (!cells.length) return { size: Infinity, absent: true };
  const least = cells.reduce((best, cell) => (cell.size < best.size ? cell : best));
  const bound = Math.min(...cells.map(({ world }) => world.bound));
  return { ...least, bound, never: cells.every(({ world }) => world.never.includes(anomaly)) };
}

/** The subjects that were played, those of one behaviour together. */
function behavioursOf(data, state) {
  const found = new Map();
  for (const subject of data.subjects.filter(({ name, modern }) => state.old === "yes" || modern === name)) {
    const key = erasOf(state).map((era) => worldOf(data, subject.name, { ...state, era })?.behaviour).join();
    if (key.replaceAll(",", "")) found.set(key, [...(found.get(key) ?? []), subject]);
  }
  return [...found.values()];
}

const groupOf = ([{ wrappers }]) => GROUPS.findLastIndex(([wrapper]) => !wrapper || wrappers.includes(wrapper));

function optionsView(data, state, set) {
  const behaviours = behavioursOf(data, state);
  const cellsOf = ([subject]) => data.anomalies.map(({ name }) => weakestOf(data, subject.name, name, state));
  const shown = data.anomalies.filter((_, place) => behaviours.some((each) => cellsOf(each)[place].size < Infinity));
  const worlds = new Set(behaviours.flat().flatMap(({ name }) => erasOf(state).map((era) => worldOf(data, name, { ...state, era }))));
  const runs = [...worlds].reduce((sum, world) => sum + (world?.histories ?? 0), 0);
  const open = state.open.split(",");
  const rows = (subjects) => {
    const key = subjects.map(({ short }) => short).join(" ");
    const isOpen = open.includes(key);
    const others = open.filter((each) => each && each !== key);
    const head = h("th", { scope: "row" }, h("button", {
      type: "button", class: "fold", "aria-expanded": String(isOpen), "data-key": `row-${key}`,
      onclick: () => set({ open: (isOpen ? others : [...others, key]).join(",") }, true),
    }, isOpen ? "▾ " : "▸ ", h("b", {}, key)));
    const cells = shown.map((anomaly) => optionCell(data, weakestOf(data, subjects[0].name, anomaly.name, state), subjects[0], anomaly, state));
    return [[head, ...cells], ...(isOpen ? subjects.map((each) => letterRow(data, each, state, shown.length)) : [])];
  };
  const groups = GROUPS.map(([, heading], place) => [heading, behaviours.filter((each) => groupOf(each) === place).flatMap(rows)]);
  const unseen = data.anomalies.filter((each) => !shown.includes(each));
  return [
    h("h1", {}, "What goes wrong, by option"),
    h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, deployment(data, state, set),
      data.worlds.some(({ era }) => era === "legacy") && h("label", {}, h("input", {
        type: "checkbox", checked: state.old === "yes", "data-key": "old",
        onchange: (event) => set({ old: event.target.checked ? "yes" : "no" }),
      }), "old clients (2025-11-25), too")),
    h("p", { class: "caption", id: "least" }, `The fewest faults that cause each failure, in ${plural(runs, "run")}. Options in one row fail under the same sets of faults. A redeploy here adds a question; Redeploys has the others. The destination ignores idempotency keys. Click a cell to watch it, a row to see its options.`),
    cards("failures by option", ["options", ...shown.map(({ words }) => words)], groups.filter(([, each]) => each.length)),
    h("p", { class: "key" },
      h("span", { class: "every" }, "✗ every call"), h("span", { class: "one" }, "✗ one fault"), h("span", { class: "two" }, "✗ two faults"),
      h("span", { class: "unseen" }, "✓ not seen (≤ 2)"), " in no run with up to two faults ",
      h("span", { class: "proved" }, "✓ never (proved)"), " for any number of faults, as long as the code stays the same, effects succeed and no state expires"),
    unseen.length > 0 && h("p", { class: "caption" }, `Not seen in any of these runs: ${unseen.map(({ words }) => words).join(", ")}.`),
  ];
}

/** What the author of one option writes, and where to go from there. */
function letterRow(data, subject, state, columns) {
  const option = data.options[subject.option];
  return [
    h("th", { scope: "row", class: "letter" }, h("b", {}, subject.short), ` ${subject.says}`),
    h("td", { colspan: columns, class: "letter" }, `${option.writes.replaceAll("`", "")} · ${plural(option.code.length, "line")} · old clients ${option.asks ? "are asked" : "get an error"} · `,
      h("a", { href: runAt(state, subject.name, "") }, "play"), " · ",
      h("a", { href: fragmentOf({ ...DEFAULTS, view: "diff", left: "E", right: subject.option }) }, "diff against E"), " · ",
      h("a", { href: `../../mrtr_options/${option.file}` }, option.file)),
  ];
}

function optionCell(data, cell, subject, anomaly, state) {
  if (cell.absent) return h("td", { class: "unseen" }, "not played");
  const about = `${subject.short}, ${anomaly.words}`;
  if (cell.size === Infinity) {
    const says = cell.never ? "never (proved)" : `not seen (≤ ${cell.bound})`;
    const title = cell.never ? "proved for any number of faults, as long as the code stays the same, effects succeed and no state expires" : `in no run with up to ${plural(cell.bound, "fault")}`;
    return h("td", { class: cell.never ? "proved" : "unseen" },
      h("a", { href: "#view=method", title, "aria-label": `${about}: ${title}` }, `✓ ${says}`));
  }
  const kind = ["every", "one", "two"][Math.min(cell.size, 2)], words = wordsOf(data, cell.faults);
  return h("td", { class: kind }, h("a", {
    href: runAt(state, subject.name, cell.faults, { era: cell.era }), title: cell.faults || "no fault", "aria-label": `${about}: ${sentence(data, cell.faults)}`,
    "data-key": `cell-${subject.name}-${anomaly.name}`, "data-cell": `${subject.name}|${anomaly.name}`,
  }, `✗ ${words}`), cell.era === "legacy" && h("small", {}, " old client"));
}

/** What table and player have in common: the client, and the fleet where there are several. */
function deployment(data, state, set) {
  const fleets = Object.entries(data.fleets).filter(([fleet]) => data.worlds.some((world) => world.fleet === fleet));
  return [
    choice("When a response is lost, the client", "policy", CLIENTS, state, set),
    fleets.length > 1 && choice("There are", "fleet", Object.fromEntries(fleets), state, set),
  ];
}
