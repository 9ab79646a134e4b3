// The first screen: the finding, and for each behaviour the least that has to go wrong.

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

const sizeOf = (faults) => (faults ? faults.split(" ").length : 0);
const weight = (cell) => (cell.absent ? -1 : cell.size < Infinity ? cell.size : cell.never ? 100 : 10 + cell.bound);

const erasOf = (state) => (state.old === "yes" ? ["modern", "legacy"] : ["modern"]);

/** The subjects that a filter leaves, those of one behaviour together. */
function behavioursOf(data, state) {
  const found = new Map();
  for (const subject of data.subjects.filter(({ name, modern }) => state.old === "yes" || modern === name)) {
    const key = erasOf(state).map((era) => worldOf(data, subject.name, { ...state, era })?.behaviour).join();
    found.set(key, [...(found.get(key) ?? []), subject]);
  }
  return [...found.values()];
}

function tableView(data, state, set) {
  const columns = data.anomalies.filter(({ harms }) => !state.harms || harms === state.harms);
  const rows = behavioursOf(data, state).map((subjects) => ({
    subjects, ends: endsWell(data, subjects[0], state), cells: columns.map(({ name }) => weakestOf(data, subjects[0].name, name, state)),
  }));
  const shown = columns.map((_, place) => rows.some(({ cells }) => cells[place].size < Infinity));
  sortRows(rows, columns, state.sort);
  const kinds = new Set(rows.flatMap(({ cells }) => cells).flatMap(({ faults }) =>
    (faults ?? "").split(" ").filter(Boolean).map((name) => faultOf(name).kind)));
  const histories = rows.flatMap(({ subjects }) => subjects).flatMap(({ name }) =>
    erasOf(state).map((era) => worldOf(data, name, { ...state, era })));
  const runs = [...new Set(histories)].reduce((sum, world) => sum + (world?.histories ?? 0), 0);
  return [
    h("h1", { id: "finding" }, finding(data, state)),
    filters(data, state, set),
    where(data, state),
    h("p", { class: "caption", id: "least" }, `Fewest faults that cause each failure (${plural(runs, "run")}). `,
      "Names in one row fail under the same sets of faults, with either client. ",
      "Click a cell or a name to watch it; click a heading to sort."),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "anomalies" },
      h("table", { class: "anomalies", "aria-describedby": "least" },
        h("thead", {}, h("tr", {}, header("options", "subject", state, set, "by name"), h("th", { scope: "col" }, "clean call"),
          columns.map(({ name, says, harms }, place) =>
            shown[place] && header(name, name, state, set, `${says} Harmed: ${harms}.`, harms)))),
        h("tbody", {}, rows.map(({ subjects, cells }) => h("tr", {}, rowHead(subjects, state), clean(data, subjects[0], state),
          cells.map((cell, place) => shown[place] && tableCell(cell, subjects[0], columns[place], state))))))),
    absent(columns.filter((_, place) => !shown[place])),
    legend(data, kinds),
  ];
}

function header(text, sort, state, set, title, under) {
  const [by, way] = state.sort.split(":");
  const sorted = by === sort ? (way ? "descending" : "ascending") : undefined;
  const next = by === sort && !way ? `${sort}:back` : sort;
  return h("th", { scope: "col", "aria-sort": sorted }, h("button", {
    type: "button", title, "data-key": `sort-${sort}`, onclick: () => set({ sort: next }),
  }, text, sorted ? (way ? " ▴" : " ▾") : ""), under && h("small", {}, under));
}

/** What needs the most to go wrong comes first; without a choice by every column, money before the others. */
function sortRows(rows, columns, sort) {
  const [by, way] = sort.split(":");
  if (by === "subject") return void (way && rows.reverse());
  const chosen = columns.findIndex(({ name }) => name === by);
  const places = chosen < 0 ? columns.map((_, place) => place) : [chosen];
  rows.sort((one, other) => places.reduce((order, place) =>
    order || weight(other.cells[place]) - weight(one.cells[place]), other.ends - one.ends) * (way ? -1 : 1));
}

/** Whether a call in which nothing goes wrong ends in a result; what does not comes last. */
function endsWell(data, subject, state) {
  return Number(worldOf(data, subject.name, { ...state, era: "modern" })?.clean[2] === "result");
}

/** The names of a behaviour; each opens its own run. */
function rowHead(subjects, state) {
  return h("th", { scope: "row" }, subjects.map((subject) => {
    const href = fragmentOf({ ...state, view: "play", subjects: subject.name, faults: "", round: "", step: "", era: "modern" });
    return [h("a", { href, title: subject.says, "data-key": `row-${subject.name}` }, h("b", {}, subject.short), " ", h("span", {}, subject.says)), " "];
  }));
}

/** Audits and bills of a call in which nothing goes wrong; an old client's after a comma. */
function clean(data, subject, state) {
  const worlds = erasOf(state).map((era) => worldOf(data, subject.name, { ...state, era })).filter(Boolean);
  return h("td", { class: "clean", title: "audits/bills" }, worlds.map(({ clean: [audits, bills, end] }, place) =>
    [place ? ", old " : "", `${audits}/${bills}`, end === "result" ? "" : " error"]));
}

function tableCell(cell, subject, anomaly, state) {
  if (cell.absent) return h("td", { class: "none" }, "not played");
  if (cell.size === Infinity) {
    return cell.never
      ? h("td", { class: "never", title: "proved for any number of faults without redeploy, expired, fail@" }, "never")
      : h("td", { class: "none", title: `in no run with up to ${plural(cell.bound, "fault")}` }, `not seen (≤ ${cell.bound})`);
  }
  const href = fragmentOf({
    ...state, view: "play", subjects: subject.name, era: cell.era, faults: cell.faults.replaceAll(" ", ","), round: "", step: "",
  });
  return h("td", { class: `takes-${Math.min(cell.size, 2)}` }, h("a", {
    href, "data-key": `cell-${subject.name}-${anomaly.name}`, "data-cell": `${subject.name}|${anomaly.name}`,
  }, cell.faults || "no fault"), cell.era === "legacy" && h("small", {}, " old client"));
}

const absent = (columns) => columns.length > 0 && h("p", { class: "absent" },
  `Not seen in any of these runs: ${columns.map(({ name }) => name).join(", ")}.`);

function legend(data, kinds) {
  return [
    h("p", { class: "key" },
      h("span", { class: "takes-0" }, "no fault"), " in every call ",
      h("span", { class: "takes-1" }, "lost3"), " one fault, at round 3 ",
      h("span", { class: "takes-2" }, "lost3 old3.2"), " two faults, the second at round 3's second attempt ",
      h("span", { class: "none" }, "not seen (≤ 2)"), " in no run with up to two ",
      h("span", { class: "never" }, "never"), " proved for any number without redeploy, expired, fail@"),
    h("dl", { class: "faults" }, Object.entries(data.faults).filter(([kind]) => kinds.has(kind)).map(([kind, { says }]) =>
      h("div", {}, h("dt", {}, kind), h("dd", {}, says)))),
  ];
}

function filters(data, state, set) {
  const harms = [...new Set(data.anomalies.map(({ harms }) => harms))];
  return h("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
    deployment(data, state, set),
    select("Who is harmed", state.harms, [["", "everybody"], ...harms.map((each) => [each, each])],
      (value) => set({ harms: value }), "harms"),
    h("label", { class: "check" }, h("input", {
      type: "checkbox", checked: state.old === "yes", "data-key": "old",
      onchange: (event) => set({ old: event.target.checked ? "yes" : "no" }),
    }), "old clients (2025-11-25), too"));
}

/** What table and player have in common: the fleet, and the client. */
function deployment(data, state, set) {
  return [
    choice("My deployment", "fleet", { one: "one instance", sticky: "sticky fleet", free: "free fleet" }, state, set),
    choice("When a response is lost, the client", "policy", {
      "call again": "calls the tool again, as shipped clients' hosts do", retry: "retries the round",
    }, state, set),
  ];
}

/** The same in words, for what is printed. */
const where = (data, state) =>
  h("p", { class: "where" }, `${data.fleets[state.fleet]}; ${data.policies[state.policy]} where a response is lost`);

/** The finding in a sentence, of the runs in which nothing but the last response is lost. */
function finding(data, state) {
  const many = (policy, keyed) => {
    const worlds = data.subjects.filter((subject) => subject.name === subject.modern && subject.keyed === keyed)
      .map(({ name }) => worldOf(data, name, { ...state, policy, era: "modern" })).filter(Boolean);
    const twice = worlds.filter((world) => runOf(data, world, ["lost3"]).bills > 1).length;
    return worlds.length && h("em", {}, twice > 1 && twice === worlds.length ? `all ${twice}` : `${twice} of ${worlds.length}`);
  };
  const keyed = many("call again", true);
  return [
    "Lose the last response, and ", many("call again", false), " ways to write the tool bill twice when the client calls again, ",
    many("retry", false), " when it retries", keyed ? [", ", keyed, " when it sends a call key of its own"] : "", ".",
  ];
}
