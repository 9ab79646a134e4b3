// The options by behaviour: for each the fewest faults that cause each failure.

const GROUPS = [["", "As they are"], ["guard", "In the guard"], ["call-key", "Called with a call key"]];

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
  const rows = (subjects) => [h("th", { scope: "row" }, subjects.map((each) => h("div", {}, diffLink(each)))),
    ...shown.map((anomaly) => optionCell(data, subjects, anomaly, state))];
  const groups = GROUPS.map(([, heading], place) => [heading, behaviours.filter((each) => groupOf(each) === place).map(rows)]);
  const unseen = data.anomalies.filter((each) => !shown.includes(each));
  return [
    h("h1", {}, "What goes wrong, by option"),
    h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, client(data, state, set)),
    h("p", { class: "caption", id: "least" }, `The fewest faults that cause each failure, in ${plural(runs, "run")}. Options in one row fail under the same sets of faults. A redeploy here adds a question; Redeploys has the others. The destination ignores idempotency keys. Click a cell to see its run, a name to see what its author writes.`),
    state.cell && openedOption(data, state, set),
    cards("failures by option", ["options", ...shown.map(({ name }) => name)], groups.filter(([, each]) => each.length)),
    h("p", { class: "key" },
      h("span", { class: "every" }, "✗ every call"), h("span", { class: "one" }, "✗ one fault"), h("span", { class: "two" }, "✗ two faults"),
      h("span", { class: "unseen" }, "✓ not seen (≤ 2)"), " in no run with up to two faults. ",
      data.untried.length > 0 && [h("span", { class: "untried" }, "not tried"), " a kind of fault was left out; see below. "],
      h("span", { class: "never" }, "✓ never"), " in no run, and in no state of the model with any number of faults; see Method."),
    data.untried.map((line) => h("p", { class: "caption" }, `${line}.`)),
    unseen.length > 0 && h("p", { class: "caption" }, `${data.untried.length ? "Shown by none" : "Not seen in any"} of these runs: ${unseen.map(({ name }) => name).join("; ")}.`),
  ];
}

/** The name of a subject; it leads to what its author writes. */
const diffLink = ({ title, option }) => h("a", { href: fragmentOf({ ...DEFAULTS, view: "diff", left: "E", right: option }) }, title);

/** The address of a cell: a subject and an anomaly. */
const optionAddress = (subject, anomaly) => `options/${subject.name}/${anomaly.name.replaceAll(" ", "-")}`;

/** What a cell says of one subject: its class, its text, and the same in a sentence. */
function saysOf(data, subject, anomaly, state) {
  const { weakest, bound, untried, never } = worldOf(data, subject.name, state), faults = weakest[anomaly.name];
  if (faults !== undefined) {
    const size = faults ? faults.split(" ").length : 0;
    return { look: ["every", "one", "two"][Math.min(size, 2)], text: `✗ ${wordsOf(data, faults)}`, says: sentence(data, faults), faults };
  }
  if (untried) return { look: "untried", text: untried, says: untried };
  return never.includes(anomaly.name)
    ? { look: "never", text: "✓ never", says: "in no run, and in no state of the model with any number of faults" }
    : { look: "unseen", text: `✓ not seen (≤\u00a0${bound})`, says: `in no run with up to ${plural(bound, "fault")}` };
}

/** One cell, of subjects that behave alike; it opens the first one's run. */
function optionCell(data, [subject], anomaly, state) {
  const { look, text, says, faults } = saysOf(data, subject, anomaly, state), cell = optionAddress(subject, anomaly);
  return h("td", { class: look, id: cell, "data-open": state.cell === cell }, h("a", {
    href: fragmentOf({ ...state, cell }), title: says, "aria-label": `${subject.title}, ${anomaly.name}: ${says}`,
    "data-key": cell, "data-faults": faults,
  }, text));
}

/** The subject and the anomaly of a cell's address; undefined where there is no such cell. */
function optionAt(data, cell) {
  const [, name, slug] = /^options\/([^/]+)\/([^/]+)$/.exec(cell) ?? [];
  const subject = data.bySubject.get(name), anomaly = data.anomalies.find((each) => each.name.replaceAll(" ", "-") === slug);
  return subject && anomaly && { subject, anomaly };
}

/** The run of a cell, or what its tick rests on. */
function openedOption(data, state, set) {
  const { subject, anomaly } = optionAt(data, state.cell), { says, faults } = saysOf(data, subject, anomaly, state);
  const client = `--client ${state.policy.replace(" ", "-")}`;
  return openedCell([h("b", {}, subject.title), `: ${anomaly.name}`], faults === undefined
    ? h("p", {}, `${anomaly.says} Here: ${says}.`)
    : [h("p", {}, `${anomaly.says} Fewest faults: ${says}. `, h("a", { href: runAt(state, subject.name, faults) }, "Play it, and break it further"), "."),
      picture(data, subject.name, faults, state)],
  faults === undefined ? `python -m mrtr_options explore ${subject.name} ${client}` : commandOf([subject.name], faults.split(" ").filter(Boolean), state), set);
}

/** The choice that table and player have in common. */
function client(data, state, set) {
  const policies = Object.fromEntries(data.worlds.map(({ policy }) => [policy, policy]));
  return choice("When a response is lost, the client (today's stop, or call again)", "policy", policies, state, set);
}
