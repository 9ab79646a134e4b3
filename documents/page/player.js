// The player: one or two subjects under the same faults, each with its counters, its code and its end.

const SHORTEST = ["charged twice", "call lost"];

const faultsOf = (state) => state.faults.split(",").filter(Boolean);
const namesOf = (state) => state.subjects.split(",").filter(Boolean).slice(0, 2);

function playView(data, state, set) {
  const names = namesOf(state);
  if (!names.length) names.push("E", data.default);
  const faults = faultsOf(state);
  const panels = names.map((name) => panelOf(data, name, faults, state));
  const slots = slotsOf(panels.map(({ run }) => run));
  const most = heightOf(slots);
  const step = state.step === "end" ? most : Math.min(Number(state.step), most);
  const go = (to) => set({ step: to >= most ? "end" : to <= 0 ? "" : String(to), round: "" }, true);
  const options = data.subjects.map(({ name, title }) => [name, title]);
  const choose = (place) => (value) => {
    const chosen = [...names];
    if (value) chosen[place] = value;
    else chosen.splice(place, 1);
    set({ subjects: chosen.join(","), round: "", step: "" });
  };
  const button = (key, text, label, to, disabled) => h("button", { type: "button", "data-key": key, "aria-label": label, disabled, onclick: () => go(to) }, text);
  return [
    h("h1", { class: "small" }, names.map((name) => data.bySubject.get(name).title).join(" beside "), ": ",
      faults.length ? sentence(data, faults.join(" ")) : "no fault"),
    h("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
      select("Option", names[0], options, choose(0), "subject-0"),
      select("beside", names[1] ?? "", [["", "none"], ...options], choose(1), "subject-1"),
      client(data, state, (change) => set({ ...change, round: "", step: "" }))),
    chosen(data, faults, set),
    h("div", { class: "steps" },
      h("button", { type: "button", class: "act", "data-key": "play", "data-act": "play" }, "▶ Play"),
      button("start", "|◀", "to the start", 0, step <= 0), button("back", "◀", "one step back", step - 1, step <= 0),
      button("forth", "▶", "next step", step + 1, step >= most), button("end", "▶|", "to the end", most, step >= most),
      h("output", {}, `step ${step} of ${most}`), h("small", {}, "keys: ← → space"),
      copier("link", () => location.href)),
    h("p", { class: "caption" }, "The same in a terminal: ", h("code", {}, commandOf(names, faults, state))),
    h("p", { class: "hint" }, "Click an arrow or an effect (○) to let something go wrong there. Click a round's number to mark its lines."),
    h("div", { class: `panels ${panels.length > 1 ? "double" : "single"}` },
      panels.map((panel, place) => panelView(data, panel, { state, set, slots, over: step >= most, step, place, faults }))),
  ];
}

/** A button that copies a text, and says so. */
function copier(what, text) {
  const button = h("button", { type: "button", "data-copy": what, onclick: async () => {
    await navigator.clipboard.writeText(text()).then(() => { button.textContent = `${what} copied`; }, () => { button.textContent = text(); });
  } }, `copy ${what}`);
  return button;
}

/** The command that shows the same in a terminal. */
function commandOf(names, faults, { policy }) {
  return `python -m mrtr_options play ${names.join(" ")}${faults.length ? ` --faults "${faults.join(" ")}"` : ""} --client ${policy.replace(" ", "-")}`;
}

/** What a panel shows: the subject, its world, and the run under these faults or most of them. */
function panelOf(data, name, faults, state) {
  const world = worldOf(data, name, state);
  return { name, subject: data.bySubject.get(name), world, run: runOf(data, world, faults) };
}

function chosen(data, faults, set) {
  if (!faults.length) return h("p", { class: "chosen" }, "Nothing goes wrong yet.");
  const without = (name) => faults.filter((each) => each !== name).join(",");
  return h("ul", { class: "chosen", "aria-label": "what goes wrong" }, faults.map((name) => h("li", {},
    h("b", {}, wordsOf(data, name)), ` (${name}) `,
    h("button", { type: "button", "aria-label": `undo ${name}`, "data-key": `undo-${name}`,
      onclick: () => set({ faults: without(name), round: "", step: "" }) }, "✕"))));
}

function panelView(data, { name, subject, world, run }, { state, set, slots, over, step, place, faults }) {
  const option = data.options[subject.option];
  const seen = stepsAt(run, slots, place, step), steps = run.steps.slice(0, seen);
  const rounds = steps.map(({ round }) => round).filter((round) => round !== null);
  const asked = Number(state.round.split(",")[place]);
  const round = rounds.includes(asked) ? asked : rounds.at(-1);
  const choose = (value) => {
    const all = state.round.split(",");
    all[place] = value;
    set({ round: [all[0] ?? "", all[1] ?? ""].join(",").replace(/,$/, "") }, true);
  };
  const canvas = h("div", { class: "canvas" });
  canvas.append(diagram(run, slots, place, seen, {
    round, choose, offer: (where, at, element) => menu(data, { where, at, element, canvas, world, faults, set }),
  }));
  return h("section", { class: `panel ${over ? verdict(run) : ""}`, "data-panel": name, "aria-label": subject.title },
    h("h2", {}, h("b", {}, subject.title)),
    shortest(data, world, state, set, name),
    ways(data, world, state, name),
    left(data, run, world, faults),
    counters(data, steps, run, over),
    h("div", { class: "pair" }, canvas, code(subject, option, steps, round, steps.find((each) => each.round === round)?.place)),
    copier("SVG", () => svgOf(run, `${subject.title}: ${sentence(data, run.faults.join(" "))}`)));
}

/** What is different from what was chosen, in a sentence: a set that was not played, or a point that is not there. */
function left(data, run, world, faults) {
  if (!run.left.length) return null;
  return h("p", { class: "unexplored", role: "status" },
    faults.length > world.every ? `Not on this page: it has every set of up to ${plural(world.every, "fault")}, and of more those that a table shows. `
      : "Not possible: there is no such point in the call, or two of the faults exclude each other. ",
    `Shown without ${run.left.join(" and ")}.`);
}

function shortest(data, world, state, set, name) {
  return h("div", { class: "shortest" }, SHORTEST.map((anomaly) => {
    const faults = world.weakest[anomaly], does = anomaly;
    if (faults !== undefined) {
      return h("button", { type: "button", "data-key": `${name}-${anomaly}`, "data-shortest": anomaly,
        onclick: () => set({ faults: faults.replaceAll(" ", ","), round: "", step: "end" }) }, `${does}: ${wordsOf(data, faults)}`);
    }
    const unseen = world.untried || `not seen (≤ ${world.bound})`;
    return h("span", {}, `${does}: ${world.never.includes(anomaly) ? "never" : unseen}`);
  }));
}

/** Every anomaly of a world with all of its smallest sets of faults, folded. */
function ways(data, world, state, name) {
  const found = Object.entries(world.witnesses);
  if (!found.length) return null;
  const sets = found.reduce((sum, [, each]) => sum + each.length, 0);
  return h("details", { class: "ways" }, h("summary", { "data-key": `${name}-ways` },
    `${plural(sets, "minimal failure")}, ${plural(found.length, "kind")}`),
  h("dl", {}, found.map(([anomaly, each]) => [h("dt", {}, anomaly), h("dd", {}, each.map((faults, place) => [
    place ? ", " : "", h("a", { href: fragmentOf({ ...state, faults: faults.replaceAll(" ", ","), round: "", step: "" }) },
      faults || "every call")]))])));
}

function counters(data, steps, run, over) {
  const count = (kind) => steps.filter(({ effect }) => effect === kind).length;
  const counter = (kind, does) => h("div", { class: `counter ${count(kind) > run.due ? "twice" : ""}` },
    h("output", { "data-count": kind }, String(count(kind))), ` ${does}`);
  return h("div", { class: "outcome" }, counter("audit", count("audit") === 1 ? "audit" : "audits"), counter("bill", count("bill") === 1 ? "bill" : "bills"),
    h("div", { class: "end" }, over
      ? [h("span", {}, "The client ends with "), h("b", { class: run.end.what }, run.end.what === "nothing" ? "no response" : run.end.text)]
      : "the call goes on"),
    over && h("div", { class: "shown", "data-shown": true }, failures(data, run)));
}

/** The author code with the lines that ran in a round, and how often each has run by then. */
function code(subject, option, steps, round, place) {
  const times = new Map(), now = new Set(), before = new Set(), skipped = new Set();
  for (const { round: at, lines, skipped: not } of steps) {
    if (not && at === round) skipped.add(not);
    for (const first of lines ?? []) {
      for (let line = first; line <= (option.spans[first] ?? first); line++) {
        if (at === round && !now.has(line) && times.get(line)) before.add(line);
        if (at === round) now.add(line);
        times.set(line, (times.get(line) ?? 0) + 1);
      }
    }
  }
  return h("div", { class: "code" }, h("p", { class: "key" }, option.file, h("br"),
    h("span", { class: "ran" }, !now.size && place ? `no line ran in round ${place}` : place ? `ran in round ${place}` : "ran"), " ",
    h("span", { class: "again" }, "ran again"), " ", h("span", { class: "times" }, "×3"), " times so far ", h("span", { class: "times" }, "◇"), " effect not repeated"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `author code of ${option.file}` },
      h("table", {}, [...option.code, ...aroundOf(subject)].map(([line, text]) => h("tr", {
        class: now.has(line) ? (before.has(line) ? "again" : "ran") : skipped.has(line) ? "skipped" : "", "data-line": line,
      }, h("td", { class: "number" }, String(line)), h("td", {}, h("code", {}, text)),
      h("td", { class: "times" }, skipped.has(line) ? "◇" : times.get(line) > 1 ? `×${times.get(line)}` : ""))))));
}

/** What can go wrong at one point: each choice is a run that was made; of others the menu says why not. */
function menu(data, { where, at, element, canvas, world, faults, set }) {
  closeMenu();
  const runs = runsOf(data, world);
  const close = () => { closeMenu(); element.focus(); };
  const choices = Object.entries(data.faults).filter(([, fault]) => fault.at === where).map(([kind, fault]) => {
    const name = kind + at, taken = faults.includes(name);
    return { name, fault, taken, after: taken ? faults.filter((each) => each !== name) : [...faults, name] };
  });
  const made = choices.filter(({ after }) => runs.has(keyOf(after)));
  const beyond = !made.length && choices.some(({ after }) => after.length > world.every);
  const items = made.map(({ name, fault, taken, after }) => h("button", {
    type: "button", role: "menuitem", "data-fault": name, title: fault.says,
    onclick: () => { closeMenu(); set({ faults: after.join(","), round: "", step: "end" }); },
  }, taken ? `undo: ${fault.do}` : fault.do, " ", h("code", {}, name)));
  const shown = h("div", { class: "menu", role: "menu", "aria-label": `what goes wrong at ${where} ${at}`,
    onkeydown: (event) => {
      const place = items.indexOf(document.activeElement);
      const to = { ArrowDown: place + 1, ArrowUp: place - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
      if (event.key === "Escape") close();
      else if (to !== undefined) items[to % items.length].focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    } },
  !made.length && h("p", {}, beyond ? `Not on this page: more than ${plural(world.every, "fault")} at a time.` : "Nothing more is possible here with these faults."),
  items, h("button", { type: "button", role: "menuitem", class: "close", onclick: close }, "nothing"));
  items.push(shown.lastChild);
  const box = canvas.getBoundingClientRect(), row = element.getBoundingClientRect();
  canvas.append(shown);
  shown.style.top = `${row.bottom - box.top}px`;
  items[0].focus();
}

const closeMenu = () => document.querySelectorAll(".menu").forEach((each) => each.remove());
