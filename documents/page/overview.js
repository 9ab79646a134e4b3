// The first screen: how many ways charge twice, a lost response that plays by itself, and which option to take.

function overviewView(data, state, set) {
  const run = runOf(data, worldOf(data, "E", DEFAULTS), ["lost3"]);
  const auto = h("div", { class: "auto" }, diagram(run, slotsOf([run]), 0, run.steps.length, {}));
  const rows = auto.querySelectorAll(".row");
  rows.forEach((row, place) => row.style.setProperty("--at", place / rows.length));
  return [
    h("h1", { class: "wide" }, "How to write an MCP tool that asks its user in the middle of a call, and not charge twice"),
    h("div", { class: "halves" },
      h("section", {},
        h("p", {}, "A tool returns its question. The answer arrives as a new request, and your code starts again at line 1. The user is charged after the last answer. ", h("b", {}, "When the result is lost, these ways to write the tool charge twice:")),
        h("dl", { class: "dots" }, Object.entries(data.dots).map(([client, ways]) => {
          const names = Object.entries(ways), many = names.filter(([, twice]) => twice).length;
          return [h("dt", {}, `A client that ${client}`), h("dd", {},
            h("span", { role: "img", "aria-label": `${many} of ${names.length} charge twice` },
              [...names].sort((one, other) => other[1] - one[1]).map(([name, twice]) =>
                h("i", { class: twice ? "dot twice" : "dot", title: data.bySubject.get(name)?.short ?? name }))),
            h("b", {}, ` ${many} of ${names.length}`))];
        })),
        h("p", { class: "caption" }, "A dot is an option, alone or in the single-use guard. No shipped client that we tried resends a lost round.")),
      h("section", {},
        h("h2", {}, h("b", {}, "E"), " the result is lost, and the client resends: charged twice"),
        auto,
        h("p", {}, h("a", { class: "act", href: runAt(DEFAULTS, "E,F+guard", "lost3") }, "Try it, beside F in the guard")))),
    h("h2", { class: "title" }, "What to do"),
    h("div", { class: "advice" }, data.advice.map(([who, ...items]) => h("section", {}, h("h3", {}, who),
      h("ul", {}, items.map((item) => h("li", {}, marked(item))))))),
    ...chooserView(data, state, set),
  ];
}

/** A line of the README: its links, its code, and what it stresses. */
function marked(line) {
  return line.split(/(\[[^\]]*\]\([^)]*\)|`[^`]*`|\*+[^*]+\*+)/).map((part) => {
    const [, text, address] = part.match(/^\[(.*)\]\((.*)\)$/) ?? [];
    if (text) return h("a", { href: address.includes(":") ? address : `../../${address}` }, text);
    if (part.startsWith("*")) return h(part.startsWith("**") ? "b" : "em", {}, part.replaceAll("*", ""));
    return part.startsWith("`") ? h("code", {}, part.slice(1, -1)) : part;
  });
}

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
  const command = ({ policy, faults }) => `play ${subject.name} --faults "${faults}" --client ${policy.replace(" ", "-")}`
    + ` --destination ${destination.replace(" ", "-")}`;
  return [
    h("p", { class: "take" }, "Take ", h("b", {}, subject.title)),
    h("p", {}, why),
    h("ul", {},
      h("li", {}, "You write: ", marked(option.writes), `, ${plural(option.code.length, "line")}. `,
        subject.option !== "E" && [h("a", { href: fragmentOf({ ...DEFAULTS, view: "diff", left: "E", right: subject.option }) }, `Its diff against E: ${plural(changed, "line")}`), "."],
        subject.wrappers.includes("guard") && [" The guard goes around the server: ", h("a", { href: "../../docs/CHOOSING.md#the-default-in-code" }, "in code"), "."]),
      h("li", {}, weak.length ? "What one fault still does to it:" : "Nothing was seen to go wrong with one fault.",
        h("ul", {}, weak.map((each) => h("li", {}, `client ${each.policy}: `, h("b", {}, each.words), `, ${each.when}. `,
          destination === "ignores keys" && data.found.has(`${subject.name} ${each.policy}`)
            ? h("a", { href: runAt({ policy: each.policy }, subject.name, each.faults) }, "Watch it")
            : h("code", {}, command(each))))))),
    listing(`author code of ${option.file}`, option.code),
  ];
}
