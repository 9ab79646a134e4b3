// Tables of the documents, cell by cell as they are there, with a colour by what a cell says.

/** What a cell says, as a class: the worst has the strongest colour. */
const LOOKS = [
  [/^‼/, "charged"], [/^☠/, "dead"], [/^⏳/, "hangs"], [/^⚠/, "one"],
  [/^stale|\d\/2/, "every"], [/^lost|called again/, "one"], [/^refused|^asked again|^empty|^error/, "two"], [/^ok|^result/, "good"],
];
const looks = (text) => LOOKS.find(([pattern]) => pattern.test(text))?.[1] ?? "";

function heat(label, [head, ...rows], linkOf, saysOf, looksOf = looks) {
  return cards(label, head, [["", rows.map(([first, ...cells]) => [
    h("th", { scope: "row" }, saysOf ? [h("b", {}, first), " ", saysOf(first)] : first),
    ...cells.map((text, place) => h("td", { class: looksOf(text, head[place + 1]) }, text && h("a", {
      href: linkOf(head[place + 1], first), title: `${head[place + 1]}, ${first}: ${text}`,
    }, text.replace(/(\d) s\b/, "$1\u00a0s")))),
  ])]]);
}

/** What a client is charged and told, by the mark in the head of the column. */
const chargedLooks = (text, head) => (Number(text) > 0 ? LOOKS.find(([pattern]) => pattern.test(head))?.[1] ?? "" : "");

function clientsView(data) {
  const guard = ", server in the guard";
  const runOf = (era) => (client, trouble) => {
    const at = `${data.clients[`${client.replace(guard, "")}, ${era}`]}/${/\(([^()]*)\)$/.exec(trouble)[1]}`;
    return fragmentOf({ ...DEFAULTS, view: "scoreboard", cell: client.endsWith(guard) ? `${at}/F+guard` : at });
  };
  const counts = () => "../../docs/results/CLIENTS.md#what-the-default-does-for-them";
  const key = [["charged", "‼ charged twice"], ["dead", "☠ dead"], ["hangs", "⏳ hangs"], ["one", "⚠ charged, and told of an error; or called again"], ["two", "error"], ["good", "result"]];
  const kinds = [["Clients of 2026-07-28", "modern", ""], ["Clients of 2025-11-25", "legacy", "old "]];
  return [
    h("h1", {}, "What shipped clients do when something goes wrong"),
    h("p", { class: "caption" }, "First what lost responses come to with option F, in the guard, and with the default. Then each trouble with option F, for old clients inside A: how the call ended for the application, and how many audits/bills there were. Dead: you must create a new client. Hangs: nothing within 100 s. Called again: the client called the tool a second time by itself. Resent: it resent the lost round; only ours does."),
    h("p", { class: "key" }, key.map(([look, says]) => h("span", { class: look }, says))),
    ...kinds.flatMap(([title, era, old]) => [
      h("h2", { class: "title" }, title),
      heat(`lost responses of ${title.toLowerCase()}`, data.tables[`${old}clients and servers`], counts, undefined, chargedLooks),
      heat(title.toLowerCase(), data.tables[`${old}clients`], runOf(era)),
    ]),
  ];
}

function redeploysView(data) {
  return [
    h("h1", {}, "What happens to open calls when you redeploy"),
    h("p", { class: "caption" }, "Stale: the call completed with an answer to another question. Lost: however often the client sends it again, it gets no result. Refused: one clear error. -back: rolled back; -mixed: half of the instances have the new version."),
    h("p", { class: "key" }, h("span", { class: "every" }, "stale"), h("span", { class: "one" }, "lost"), h("span", { class: "two" }, "refused, asked again"), h("span", { class: "good" }, "ok")),
    heat("redeploys", data.tables.redeploys, () => "../../docs/results/RESULTS.md#redeploys", (name) => h("small", {}, data.why[`redeploy-${name}`] ?? "")),
  ];
}

function costsView(data) {
  const [head, ...rows] = data.tables.costs;
  return [
    h("h1", {}, "What it costs"),
    h("p", { class: "caption" }, "Processor time of a call with one question, in memory, relative to the tool written by hand. A bar is the middle half of what was measured. The axis is logarithmic."),
    h("figure", { class: "costs" }, document.getElementById("costs").firstElementChild.cloneNode(true)),
    h("h2", { class: "title" }, "Everything that was measured"),
    h("p", { class: "caption" }, "Ratios hold on other machines, milliseconds do not. ", h("a", { href: "../../docs/results/COSTS.md" }, "How it was measured")),
    cards("costs", head, [["", rows.map(([first, ...cells]) => [h("th", { scope: "row" }, first), ...cells.map((text) => h("td", { class: "count" }, text))])]]),
  ];
}

function methodView(data) {
  const runs = data.worlds.reduce((sum, { histories }) => sum + histories, 0);
  const modelled = new Set(data.worlds.filter(({ never }) => never.length).map(({ subject }) => data.bySubject.get(subject).short));
  const races = [...new Set(data.worlds.flatMap((world) => world.races ?? []))];
  const bounds = new Map();
  for (const { subject, bound } of data.worlds) bounds.set(bound, (bounds.get(bound) ?? new Set()).add(data.bySubject.get(subject).short));
  return [
    h("h1", {}, "How it was tested"),
    h("p", {}, `${plural(runs, "run")}. Each run is one call for Springfield, with two questions, on two instances; a round goes to the instance that asked. The client resends, or calls again. Every combination of faults was tried, up to this many:`),
    h("ul", {}, [...bounds].map(([bound, names]) => h("li", {}, `up to ${plural(bound, "fault")}: ${[...names].join(" ")}`))),
    h("h2", { class: "title" }, "Faults"),
    h("dl", { class: "faults" }, Object.entries(data.faults).map(([kind, { says }]) => h("div", {}, h("dt", {}, kind), h("dd", {}, says)))),
    h("p", { class: "caption" }, "lost3 is a fault in round 3, lost3.2 in the second attempt of round 3."),
    h("h2", { class: "title" }, "Failures"),
    h("dl", { class: "faults" }, data.anomalies.map(({ name, words, says }) => h("div", {}, h("dt", {}, words), h("dd", {}, says, words === name ? "" : ` (${name})`)))),
    h("h2", { class: "title" }, "Never"),
    h("p", {}, `A cell reads never where two things hold: no run shows the failure, and no state of a model does. The model describes the client, the network, two instances, the store and the destination, and imports nothing of the options. A search of all its states covers any number of lost, repeated, late and reordered messages and of crashes, and beside them any number of one more kind: states too old, a redeploy, failing effects, a changed or an early answer, or another call. Counterexamples of the model were played on the real servers or its transitions driven on them, for ${[...modelled].join(" ")}. It leaves out two of the further kinds at once, and what an answer says. `,
      h("a", { href: "../../docs/MODEL.md#conditions" }, "Its conditions")),
    h("figure", { class: "guard" }, document.getElementById("guard").firstElementChild.cloneNode(true)),
    h("h2", { class: "title" }, "Not tried"),
    h("ul", {}, h("li", {}, "more faults at a time than above; other tools, with other questions and effects"),
      h("li", {}, "more than two instances; make chaos tests fleets under disasters"),
      races.length > 0 && h("li", {}, `sets of faults that show a failure in some runs of K and L and not in others: ${races.join("; ")}`)),
    h("p", {}, "Nothing is simulated: ", h("code", {}, "python -m mrtr_options play"), " makes each run again. This page keeps the runs with one fault and those that a cell opens."),
  ];
}
