// Tables of the documents, cell by cell as they are there, with a colour by what a cell says.

/** What a cell says, as a class: the worst has the strongest colour. */
const LOOKS = [
  [/^‼|^charged twice/, "charged"], [/^☠/, "dead"], [/^⏳/, "hangs"], [/^⚠|^charged once, not told/, "one"],
  [/^stale|\d\/2/, "every"], [/^lost|called again/, "one"], [/^refused|^asked again|^empty|^(tool )?error/, "two"], [/^ok|^result|^charged once/, "good"],
];
const looks = (text) => LOOKS.find(([pattern]) => pattern.test(text))?.[1] ?? "";

/** A text of the documents without the sign that its colour stands for here. */
const signless = (text) => text.replace(/[‼☠⏳⚠]\ufe0f? ?/g, "");

function heat(label, [head, ...rows], linkOf, saysOf, looksOf = looks) {
  return cards(label, head.map(signless), [["", rows.map(([first, ...cells]) => [
    h("th", { scope: "row" }, saysOf ? [h("b", {}, first), " ", saysOf(first)] : first),
    ...cells.map((text, place) => h("td", { class: looksOf(text, head[place + 1]) }, text && h("a", {
      href: linkOf(place, first, head[place + 1]), title: `${signless(head[place + 1])}, ${first}: ${signless(text)}`,
    }, signless(text).replace(/(\d) s\b/, "$1\u00a0s")))),
  ])]]);
}

/** What a client is charged and told, by the mark in the head of the column. */
const chargedLooks = (text, head) => (Number(text) > 0 && !head.startsWith("lost") ? LOOKS.find(([pattern]) => pattern.test(head))?.[1] ?? "" : "");

function clientsView(data, state, set) {
  const guard = ", server in the guard";
  const runOf = (era) => (place, trouble, client) => {
    const at = `${data.clients[`${client.replace(guard, "")}, ${era}`]}/${/\(([^()]*)\)$/.exec(trouble)[1]}`;
    return fragmentOf({ ...DEFAULTS, view: "clients", cell: client.endsWith(guard) ? `${at}/F+guard` : at });
  };
  const counts = () => `${document.documentElement.dataset.repository}docs/results/CLIENTS.md#what-the-default-does-for-them`;
  const key = [["charged", "charged twice"], ["dead", "dead"], ["hangs", "hangs"], ["one", "charged, and told of an error; or called again"], ["two", "error"], ["good", "result"]];
  const kinds = [["Clients of 2026-07-28", "modern", ""], ["Clients of 2025-11-25", "legacy", "old "]];
  return [
    h("h1", {}, "What shipped clients do when something goes wrong"),
    h("p", { class: "caption" }, "The first table counts lost responses by server. Servers whose users were charged and told the same share a row. The second table has each trouble with once (F), in the legacy shim for old clients: how the call ended for the application, and audits/bills. Dead: you must create a new client. Hangs: nothing within 100 s. Called again: the client called the tool a second time by itself. Resent: it resent the lost round, which only ours does."),
    state.cell && opened(data, state, set),
    h("p", { class: "key" }, key.map(([look, says]) => h("span", { class: look }, says))),
    ...kinds.flatMap(([title, era, old]) => [
      h("h2", { class: "title" }, title),
      heat(`lost responses of ${title.toLowerCase()}`, data.tables[`${old}clients and servers`], counts, undefined, chargedLooks),
      heat(title.toLowerCase(), data.tables[`${old}clients`], runOf(era)),
    ]),
  ];
}

/** The columns of the redeploys; options whose cells say the same share one. */
function redeployColumns(data) {
  const [[, ...letters], ...rows] = data.tables.redeploys, found = new Map();
  letters.forEach((letter, place) => {
    const says = rows.map((row) => row[place + 1]).join("|");
    found.set(says, [...(found.get(says) ?? []), letter]);
  });
  return [...found].map(([says, those]) => ({ letters: those, title: those.map((letter) => data.options[letter].title).join(", "), says: says.split("|") }));
}

/** The column and the row of a cell's address; undefined where there is no such cell. */
function redeployAt(data, cell) {
  const [, letter, name] = /^redeploys\/(\w)\/([\w-]+)$/.exec(cell) ?? [];
  const column = redeployColumns(data).find(({ letters }) => letters.includes(letter));
  const row = data.tables.redeploys.slice(1).findIndex(([first]) => first === name);
  return column && row >= 0 ? { letter, name, says: column.says[row] } : undefined;
}

/** What a redeploy comes to, in a sentence. */
const FATES = {
  ok: "The call completed, and every question was answered as the version that finished it asks it.",
  "asked again": "The call completed, and the user had to answer a question twice.",
  stale: "The call completed with an answer to a question that the user never saw in these words or with these choices.",
  refused: "The client got one clear error.",
  lost: "The client got no result, however often it sent the round again.",
};

function redeploysView(data, state, set) {
  const columns = redeployColumns(data), rows = data.tables.redeploys.slice(1);
  return [
    h("h1", {}, "What happens to open calls when you redeploy"),
    h("p", { class: "caption" }, "Options whose calls end alike share a column. A change is deployed, or taken back (-back), while a call is open; in a rolling deploy (-mixed) half of the instances have the new version, and rounds go to both in turn."),
    state.cell && openedRedeploy(data, state, set),
    h("p", { class: "key" }, Object.entries(FATES).map(([fate, says]) => [h("span", { class: looks(fate) }, fate), ` ${says} `])),
    heat("redeploys", [["redeploy", ...columns.map(({ title }) => title)], ...rows.map(([first], row) => [first, ...columns.map(({ says }) => says[row])])],
      (place, first) => fragmentOf({ ...state, cell: `redeploys/${columns[place].letters[0]}/${first}` }), (name) => h("small", {}, data.why[`redeploy-${name}`] ?? "")),
  ];
}

function openedRedeploy(data, state, set) {
  const { letter, name, says } = redeployAt(data, state.cell);
  return openedCell([h("b", {}, data.options[letter].title), `: ${name}`],
    h("p", {}, data.why[`redeploy-${name}`] ?? "", ` ${FATES[says] ?? says}`), `python -m mrtr_options play ${letter} redeploy-${name}`, set);
}

function costsView(data) {
  const [head, ...rows] = data.tables.costs, titles = new Map(data.subjects.map(({ short, title }) => [short, title]));
  titles.set(rows.find(([first]) => first.startsWith("default"))?.[0], `${data.bySubject.get(data.default).title}: the default`);
  return [
    h("h1", {}, "What it costs"),
    h("p", { class: "caption" }, "Processor time of a call with one question, in memory, relative to the tool written by hand. A bar is the middle half of what was measured. The axis is logarithmic."),
    h("figure", { class: "costs" }, document.getElementById("costs").firstElementChild.cloneNode(true)),
    h("h2", { class: "title" }, "Everything that was measured"),
    h("p", { class: "caption" }, "Ratios hold on other machines, milliseconds do not. ", fileLink("docs/results/COSTS.md", "How it was measured")),
    cards("costs", head, [["", rows.map(([first, ...cells]) => [h("th", { scope: "row" }, titles.get(first) ?? first), ...cells.map((text) => h("td", { class: "count" }, text))])]]),
  ];
}

function methodView(data) {
  const runs = data.worlds.reduce((sum, { histories }) => sum + histories, 0);
  const modelled = new Set(data.worlds.filter(({ never }) => never.length).map(({ subject }) => data.bySubject.get(subject).title));
  const races = [...new Set(data.worlds.flatMap((world) => world.races ?? []))];
  const bounds = new Map();
  for (const { subject, bound } of data.worlds) bounds.set(bound, (bounds.get(bound) ?? new Set()).add(data.bySubject.get(subject).title));
  return [
    h("h1", {}, "How it was tested"),
    h("p", {}, `${plural(runs, "run")}. Each run is one call for Springfield, with two questions, on two instances; a round goes to the instance that asked. The client stops, calls again, or resends. Every combination of faults was tried, up to this many:`),
    h("ul", {}, [...bounds].map(([bound, names]) => h("li", {}, `up to ${plural(bound, "fault")}: ${[...names].join("; ")}`))),
    h("h2", { class: "title" }, "Faults"),
    h("dl", { class: "faults" }, Object.entries(data.faults).map(([kind, { says }]) => h("div", {}, h("dt", {}, kind), h("dd", {}, says)))),
    h("p", { class: "caption" }, "lost3 is a fault in round 3, lost3.2 in the second attempt of round 3."),
    h("h2", { class: "title" }, "Failures"),
    h("dl", { class: "faults" }, data.anomalies.map(({ name, says }) => h("div", {}, h("dt", {}, name), h("dd", {}, says)))),
    h("h2", { class: "title" }, "Never"),
    h("p", {}, `A cell reads never where two things hold: no run shows the failure, and no state of a model does. The model describes the client, the network, two instances, the store and the destination, and imports nothing of the options. A search of all its states covers any number of lost, repeated, late and reordered messages and of crashes, and beside them any number of one more kind: states too old, a redeploy, failing effects, a changed or an early answer, or another call. Counterexamples of the model were played on the real servers or its transitions driven on them, for ${[...modelled].join("; ")}. It leaves out two of the further kinds at once, and what an answer says. `,
      fileLink("docs/MODEL.md#conditions", "Its conditions")),
    h("figure", { class: "guard" }, document.getElementById("guard").firstElementChild.cloneNode(true)),
    h("h2", { class: "title" }, "Not tried"),
    h("ul", {}, h("li", {}, "more faults at a time than above; other tools, with other questions and effects"),
      h("li", {}, "more than two instances; make chaos tests fleets under disasters"),
      races.length > 0 && h("li", {}, `sets of faults that show a failure in some runs on an engine and not in others: ${races.join("; ")}`)),
    h("p", {}, "Nothing is simulated: ", h("code", {}, "python -m mrtr_options play"), " makes each run again. This page keeps the runs with one fault and those that a cell opens."),
  ];
}
