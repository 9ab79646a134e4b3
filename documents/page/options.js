// The options by behaviour: for each the fewest faults that cause each failure.

const CLIENTS = { stops: "stops, and reports the error (today's)", "calls again": "calls the tool again, by itself or when told to (today's)", resends: "resends the lost request" };
const GROUPS = [["", "Options"], ["guard", "In the single-use guard"], ["call-key", "Called with a call key"]];

/** The subjects, those of one behaviour together. */
function behavioursOf(data, state) {
  const found = new Map();
  for (const subject of data.subjects) {
    const { behaviour } = worldOf(data, subject.name, state);
    found.set(behaviour, [...(found.get(behaviour) ?? []), subject]);
  }
  return [...found.values()];
}

const groupOf = ([{ wrappers }]) => GROUPS.findLastIndex(([wrapper]) => !wrapper || wrappers.includes(wrapper));

function optionsView(data, state, set) {
  const behaviours = behavioursOf(data, state);
  const worlds = data.worlds.filter(({ policy }) => policy === state.policy);
  const shown = data.anomalies.filter(({ name }) => worlds.some(({ weakest }) => name in weakest));
  const runs = worlds.reduce((sum, { histories }) => sum + histories, 0);
  const open = state.open.split(",");
  const rows = (subjects) => {
    const key = subjects.map(({ short }) => short).join(" ");
    const isOpen = open.includes(key);
    const others = open.filter((each) => each && each !== key);
    const head = h("th", { scope: "row" }, h("button", {
      type: "button", class: "fold", "aria-expanded": String(isOpen), "data-key": `row-${key}`,
      onclick: () => set({ open: (isOpen ? others : [...others, key]).join(",") }, true),
    }, isOpen ? "▾ " : "▸ ", h("b", {}, key)));
    const cells = shown.map((anomaly) => optionCell(data, subjects, anomaly, state));
    return [[head, ...cells], ...(isOpen ? subjects.map((each) => letterRow(data, each, state, shown.length)) : [])];
  };
  const groups = GROUPS.map(([, heading], place) => [heading, behaviours.filter((each) => groupOf(each) === place).flatMap(rows)]);
  const unseen = data.anomalies.filter((each) => !shown.includes(each));
  return [
    h("h1", {}, "What goes wrong, by option"),
    h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, client(state, set)),
    h("p", { class: "caption", id: "least" }, `The fewest faults that cause each failure, in ${plural(runs, "run")}. Options in one row fail under the same sets of faults. A redeploy here adds a question; Redeploys has the others. The destination ignores idempotency keys. Click a cell to watch it, a row to see its options.`),
    cards("failures by option", ["options", ...shown.map(({ words }) => words)], groups.filter(([, each]) => each.length)),
    h("p", { class: "key" },
      h("span", { class: "every" }, "✗ every call"), h("span", { class: "one" }, "✗ one fault"), h("span", { class: "two" }, "✗ two faults"),
      h("span", { class: "unseen" }, "✓ not seen (≤ 2)"), " in no run with up to two faults ",
      data.untried.length > 0 && [h("span", { class: "untried" }, "not tried"), " a kind of fault was left out; see below "],
      h("span", { class: "never" }, "✓ never"), " and in no state of the model, with any number of faults; see Method"),
    data.untried.map((line) => h("p", { class: "caption" }, `${line}.`)),
    unseen.length > 0 && h("p", { class: "caption" }, `${data.untried.length ? "Shown by none" : "Not seen in any"} of these runs: ${unseen.map(({ words }) => words).join(", ")}.`),
  ];
}

/** What the author of one option writes, and where to go from there. */
function letterRow(data, subject, state, columns) {
  const option = data.options[subject.option];
  return [
    h("th", { scope: "row", class: "letter" }, h("b", {}, subject.title)),
    h("td", { colspan: columns, class: "letter" }, marked(option.writes), ` · ${plural(option.code.length, "line")} · old clients ${option.asks ? "are asked" : "get an error"} · `,
      h("a", { href: runAt(state, subject.name, "") }, "play"), " · ",
      h("a", { href: fragmentOf({ ...DEFAULTS, view: "diff", left: "E", right: subject.option }) }, "diff against E"), " · ",
      h("a", { href: `../../mrtr_options/${option.file}` }, option.file)),
  ];
}

/** One cell: the fewest faults that cause a failure of subjects that behave alike. */
function optionCell(data, subjects, anomaly, state) {
  const [subject] = subjects;
  const { weakest, bound, untried } = worldOf(data, subject.name, state);
  const about = `${subject.short}, ${anomaly.words}`, faults = weakest[anomaly.name];
  if (faults === undefined && untried) {
    return h("td", { class: "untried" }, h("a", { href: "#view=method", title: untried, "aria-label": `${about}: ${untried}` }, untried));
  }
  if (faults === undefined) {
    const never = subjects.every(({ name }) => worldOf(data, name, state).never.includes(anomaly.name));
    const title = never ? "never: in no run and in no state of the model, with any number of faults" : `in no run with up to ${plural(bound, "fault")}`;
    return h("td", { class: never ? "never" : "unseen" },
      h("a", { href: "#view=method", title, "aria-label": `${about}: ${title}` }, `✓ ${never ? "never" : `not seen (≤\u00a0${bound})`}`));
  }
  const size = faults ? faults.split(" ").length : 0, kind = ["every", "one", "two"][Math.min(size, 2)];
  return h("td", { class: kind }, h("a", {
    href: runAt(state, subject.name, faults), title: faults || "no fault", "aria-label": `${about}: ${sentence(data, faults)}`,
    "data-key": `cell-${subject.name}-${anomaly.name}`, "data-cell": `${subject.name}|${anomaly.name}`,
  }, `✗ ${wordsOf(data, faults)}`));
}

/** The choice that table and player have in common. */
const client = (state, set) => choice("When a response is lost, the client", "policy", CLIENTS, state, set);
