// The first screen: one lost result with the tool by hand and with the default, and which option to take.

/** Who reads on where, and what it says there. */
const READERS = [
  ["You write a tool today", "docs/USING.md", "Using it", "A tutorial of one sitting. One command writes the default and its test."],
  ["You build an SDK", "docs/FOR_SDKS.md", "For SDKs", "What an SDK should ship, each point with the run that asks for it."],
  ["You write the specification", "docs/FOR_THE_SPECIFICATION.md", "For the specification", "Where its pages disagree about a lost response, and what would end that."],
  ["You review the design", "docs/ARGUMENT.md", "The argument", "The pairs of options that the design papers argue with, the fault that decides each, and both verdicts."],
];

function overviewView(data, state, set) {
  return [
    h("h1", { class: "wide" }, "How to write an MCP tool that asks its user in the middle of a call, and not charge twice"),
    h("p", {}, "A tool returns its question. The answer arrives as a new request, and your code starts again at line 1. The tool charges the user after the last answer."),
    h("div", { class: "panels double" }, ["E", data.default].map((name) => picture(data, name, "lost3", DEFAULTS))),
    h("p", {}, h("a", { class: "act", href: runAt(DEFAULTS, `E,${data.default}`, "lost3") }, "Break both yourself")),
    h("h2", { class: "title" }, "Every way to write the tool"),
    cards("every way to write the tool", data.front.heads, data.front.groups.map(([title, rows]) => [title, rows.map(frontRow)])),
    h("h2", { class: "title" }, "What to do"),
    h("div", { class: "readers" }, READERS.map(([who, path, title, says]) => h("section", {},
      h("h3", {}, who), h("p", {}, fileLink(path, title), `. ${says}`),
      h("ul", {}, (data.advice[path] ?? []).map((item) => h("li", {}, marked(item))))))),
    ...chooserView(data, state, set),
  ];
}

const frontRow = ([first, ...cells]) => [h("th", { scope: "row" }, marked(first)),
  ...cells.map((text) => h("td", { class: looks(text) }, marked(text)))];

/** A whole run as a picture that draws itself; its title is made from the run. */
function picture(data, name, faults, { policy }) {
  const run = runOf(data, worldOf(data, name, { policy }), faults.split(" ").filter(Boolean));
  const auto = h("div", { class: "auto" }, diagram(run, slotsOf([run]), 0, run.steps.length, {}));
  const rows = auto.querySelectorAll(".row");
  rows.forEach((row, place) => row.style.setProperty("--at", place / rows.length));
  return h("section", { class: `panel ${verdict(run)}`, "data-picture": name },
    h("h2", {}, h("b", {}, data.bySubject.get(name).title), `: ${wordsOf(data, faults)}, and the client ${policy}`, h("br"), failures(data, run)), auto);
}

/** Whether a run harms somebody, as a class. */
const verdict = (run) => (run.anomalies.length ? "harmed" : "unharmed");

/** What goes wrong in a run, in words. */
const failures = (data, run) => (run.anomalies.length ? run.anomalies.map((name) => h("span", { class: "anomaly" }, name))
  : h("span", { class: "unseen" }, `no failure: ${plural(run.bills, "bill")}`));

/** A line of Markdown: its links, its code, and what it stresses. */
function marked(line) {
  return line.split(/(\[[^\]]*\]\([^)]*\)|`[^`]*`|\*+[^*]+\*+)/).map((part) => {
    const [, text, address] = part.match(/^\[(.*)\]\((.*)\)$/) ?? [];
    if (text) return address.includes(":") ? h("a", { href: address }, text) : fileLink(address, text);
    if (part.startsWith("*")) return h(part.startsWith("**") ? "b" : "em", {}, marked(part.replaceAll("*", "")));
    return part.startsWith("`") ? h("code", {}, part.slice(1, -1)) : part;
  });
}

/** The lines that put an option into its wrappers, without numbers. */
const aroundOf = ({ around }) => around.map((text) => ["+", text]);

function chooserView(data, state, set) {
  const asked = Object.entries(data.questions);
  const found = data.chooser.find((each) => asked.every(([name]) => each.answers[name] === state[name]))
    ?? data.chooser[0];
  return [
    h("h2", { class: "title", id: "choose" }, "Which option?"),
    h("form", { class: "filters chooser", onsubmit: (event) => event.preventDefault() },
      asked.map(([name, question]) => choice(question, name, { yes: "yes", no: "no" }, state, set))),
    h("section", { class: "answer", "aria-live": "polite" }, answer(data, found, data.bySubject.get(found.subject))),
  ];
}

function answer(data, { why, weak, destination }, subject) {
  const option = data.options[subject.option], changed = data.diffs[`E${subject.option}`]?.changed_lines ?? 0;
  const command = ({ policy, faults }) => `python -m mrtr_options play ${subject.name} --faults "${faults}" --client ${policy.replace(" ", "-")}`
    + ` --destination ${destination.replace(" ", "-")}`;
  return [
    h("p", { class: "take" }, "Take ", h("b", {}, subject.title)),
    h("p", {}, why),
    h("ul", {},
      h("li", {}, "You write: ", marked(option.writes), `, ${plural(option.code.length, "line")}. `,
        subject.option !== "E" && [h("a", { href: fragmentOf({ ...DEFAULTS, view: "diff", left: "E", right: subject.option }) }, `Its diff against E: ${plural(changed, "line")}`), "."],
        subject.wrappers.includes("guard") && [" The guard goes around the server: ", fileLink("docs/CHOOSING.md#the-default-in-code", "in code"), "."]),
      h("li", {}, weak.length ? "What one fault still does to it:" : "Nothing was seen to go wrong with one fault.",
        h("ul", {}, weak.map((each) => h("li", {}, `client ${each.policy}: `, h("b", {}, each.name), `, ${each.when}. `,
          destination === "ignores keys" && data.found.has(`${subject.name} ${each.policy}`)
            ? h("a", { href: runAt({ policy: each.policy }, subject.name, each.faults) }, "Watch it")
            : h("code", {}, command(each))))))),
    listing(`author code of ${option.file}`, [...option.code, ...aroundOf(subject)]),
  ];
}
