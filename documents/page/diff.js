// Two options side by side: what their authors write, as `diff` compares it, and the stand-ins behind it.

/** What the author's lines do in a clean call of a client that resends: in how many rounds each runs, and
 * which effects it brings how often. */
function cleanLines(data, letter) {
  const world = worldOf(data, letter, DEFAULTS);
  const found = { rounds: 0, ran: new Map(), effects: new Map() };
  if (!world) return found;
  const run = runOf(data, world, []), rounds = new Set(), spans = data.options[letter].spans;
  let latest;
  for (const step of run.steps) {
    const { round, lines, effect, skipped } = step;
    if (round !== null) rounds.add(round);
    if (skipped) found.ran.set(skipped, (found.ran.get(skipped) ?? new Set()).add(round));
    if (lines) {
      for (const first of lines) {
        for (let line = first; line <= (spans[first] ?? first); line++) {
          found.ran.set(line, (found.ran.get(line) ?? new Set()).add(round));
        }
      }
      latest = lines.at(-1);
    } else if (effect && latest !== undefined) {
      found.effects.set(latest, [...(found.effects.get(latest) ?? []), effect]);
    }
  }
  found.rounds = rounds.size;
  return found;
}

function diffView(data, state, set) {
  const { left, right } = state;
  const letters = Object.entries(data.options).map(([letter, { title }]) => [letter, title]);
  return [
    h("h1", { class: "small" }, `${data.options[left].title} to ${data.options[right].title}: ${plural(data.diffs[left + right].changed_lines, "changed line")} of what the author writes`),
    arguingPairs(data, state),
    h("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
      select("From", left, letters, (value) => set({ left: value }), "left"),
      select("to", right, letters, (value) => set({ right: value }), "right"),
      h("a", { href: runAt(DEFAULTS, `${left},${right}`, "lost3") }, `play both: result lost, and the client ${DEFAULTS.policy}`)),
    h("p", { class: "caption" }, "Without imports, docstrings and the lines that run the file. The last line builds the server; another name of it is no change."),
    h("p", { class: "key" }, h("span", { class: "hazard" }, "audit in every round"), " an effect that is repeated in a clean call; ",
      h("span", { class: "eachround" }, "every round"), " a line that runs in each round of it."),
    authorCode(data, left, right),
    left !== right && standIns(data, left, right),
  ];
}

/** The pairs that show what an option is about. */
function arguingPairs(data, state) {
  return h("ul", { class: "pairs", "aria-label": "pairs that show what an option is about" }, data.pairs.map(({ left, right, says }) =>
    h("li", {}, h("a", {
      href: fragmentOf({ ...DEFAULTS, policy: state.policy, view: "diff", left, right }),
      "data-key": `pair-${left}${right}`,
      "aria-current": left === state.left && right === state.right && "true",
    }, h("b", {}, `${data.options[left].title}, ${data.options[right].title}`), ": ", marked(says)))));
}

/** What two authors write: beside each other, and in one column where there is no room. */
function authorCode(data, left, right) {
  const sides = [left, right].map((letter) => ({ letter, option: data.options[letter], lines: cleanLines(data, letter) }));
  const rows = [], single = [], next = [0, 0];
  for (const [isChanged, ...counts] of data.diffs[left + right].hunks) {
    const marks = isChanged ? ["−", "+"] : ["", ""];
    const lines = sides.map(({ option }, place) => option.code.slice(next[place], next[place] += counts[place]));
    for (let row = 0; row < Math.max(...counts); row++) {
      rows.push(h("tr", {}, sides.map((side, place) => lineCells(side, lines[place][row], marks[place]))));
    }
    for (const place of isChanged ? [0, 1] : [1]) {
      for (const line of lines[place]) {
        const cells = lineCells(sides[place], line, marks[place]);
        const hazard = cells.pop().querySelector(".hazard");  // below its line, where it is seen on a narrow screen
        single.push(h("tr", {}, cells), ...(hazard ? [h("tr", {}, h("td", {}), h("td", {}), h("td", {}, hazard))] : []));
      }
    }
  }
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "diff" },
    h("table", { class: "diff single" }, h("tbody", {}, single)),
    h("table", { class: "diff beside" },
      h("thead", {}, h("tr", {}, sides.map(({ letter, option }) =>
        h("th", { colspan: 4, scope: "colgroup" }, `${option.title}, ${plural(option.code.length, "line")}`)))),
      h("tbody", {}, rows)));
}

/** The files of `sdk` that only one of two options stands on, beside each other; open where the handler is the same. */
function standIns(data, left, right) {
  const { stand_ins: files, is_handler_same: isOpen } = data.diffs[left + right];
  const columns = [left, right].map((letter, place) => h("section", { "data-standins": letter },
    h("h2", {}, h("b", {}, data.options[letter].title), `: ${standInsInWords(data, files[place])}`),
    files[place].map((file) => h("details", { open: isOpen },
      h("summary", {}, fileLink(`mrtr_options/${file}`, file), `, ${plural(data.sdk[file].length, "line")}`),
      listing(file, data.sdk[file])))));
  return [
    h("h2", { class: "title" }, "The stand-ins: what an SDK would have to ship"),
    isOpen && h("p", {}, "The body of the handler is the same. What differs is how the server is built, and what stands behind it."),
    h("div", { class: "standins" }, columns),
  ];
}

function standInsInWords(data, files) {
  if (!files.length) return "nothing besides what the other one has";
  return plural(files.reduce((sum, file) => sum + data.sdk[file].length, 0), "line");
}

function lineCells({ lines }, line, mark) {
  if (!line) return [h("td"), h("td"), h("td", { class: "gap" }), h("td")];
  const [number, text] = line;
  const effects = lines.effects.get(number) ?? [];
  const everywhere = lines.rounds > 1 && lines.ran.get(number)?.size === lines.rounds;
  const note = effects.length > 1 ? h("span", { class: "hazard" }, `${effects[0]} in every round`)
    : everywhere ? h("span", { class: "eachround", title: "runs in every round" }, "every round") : "";
  return [
    h("td", { class: "number" }, String(number)), h("td", { class: "mark" }, mark),
    h("td", { class: mark ? (mark === "+" ? "added" : "removed") : "" }, h("code", {}, text)), h("td", { class: "note" }, note),
  ];
}
