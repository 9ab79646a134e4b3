// Elements, and the state of the page, which is in the fragment of its address and nowhere else.

/** Make an element: attributes, `on...` listeners, and what is in it. */
function h(tag, attributes, ...within) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...within.flat(3).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** The client of the first screen calls the tool again, as some of today's do. */
const DEFAULTS = {
  view: "overview", policy: "calls again",
  subjects: "", faults: "", round: "", step: "", left: "E", right: "F", board: "servers", cell: "",
  money: "yes", changes: "yes", store: "yes", business_key: "no", one: "no",
};

/** The state that a fragment encodes; a plus is part of a name, as in a command. */
function stateOf(fragment) {
  const given = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "").replaceAll("+", "%2B")));
  return { ...DEFAULTS, ...given };
}

/** The fragment for a state; what is as usual is left out. */
function fragmentOf(state) {
  const unusual = Object.entries(state).filter(([name, value]) => DEFAULTS[name] !== value);
  const text = new URLSearchParams(unusual.filter(([name]) => name in DEFAULTS)).toString();
  return `#${text.replaceAll("+", "%20").replaceAll("%2B", "+").replaceAll("%2C", ",").replaceAll("%40", "@").replaceAll("%2F", "/")}`;
}

/** The fragment of a run in the player, which shows it whole. */
const runAt = ({ policy }, subjects, faults) => fragmentOf({
  ...DEFAULTS, policy, view: "play", subjects, faults: faults.replaceAll(" ", ","), step: "end",
});

/** A link to a file of the repository, which is elsewhere where this page is a site. */
const fileLink = (path, text) => h("a", { href: document.documentElement.dataset.repository + path }, text ?? path);

/** A group of radio buttons that sets one part of the state. */
function choice(legend, name, options, state, set) {
  return h("fieldset", {}, h("legend", {}, legend), Object.entries(options).map(([value, says]) =>
    h("label", {}, h("input", {
      type: "radio", name, value, checked: state[name] === value, "data-key": `${name}-${value}`,
      onchange: () => set({ [name]: value }),
    }), says)));
}

/** A list to choose from. */
function select(label, value, options, onchoice, key) {
  return h("label", { class: "select" }, label, h("select", {
    "data-key": key, onchange: (event) => onchoice(event.target.value),
  }, options.map(([each, says]) => h("option", { value: each, selected: each === value }, says))));
}

/** A table that is a list of cards where there is no room; roles are named, since cards are no table to a browser.
 * groups: for each body its heading, or none, and its rows; a row has its head and its cells. */
function cards(label, head, groups) {
  const th = (text) => h("th", { scope: "col", role: "columnheader" }, text);
  const rowOf = ([first, ...cells]) => {
    first.setAttribute("role", "rowheader");
    cells.forEach((cell, place) => {
      cell.setAttribute("role", "cell");
      cell.dataset.head = head[place + 1];
    });
    return h("tr", { role: "row" }, first, cells);
  };
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", { class: "cards", role: "table", "aria-label": label },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map(th))),
      groups.map(([heading, rows]) => h("tbody", { role: "rowgroup" },
        heading && h("tr", { class: "heading", role: "row" }, h("th", { colspan: head.length, role: "rowheader" }, heading)),
        rows.map(rowOf)))));
}

/** What the address of a cell opens: its words, the run or what it rests on, and the command that shows it. */
function openedCell(title, within, command, set) {
  const panel = h("section", { class: "answer", id: "run", "aria-label": "the run" },
    h("p", { class: "take" }, title), within,
    h("p", { class: "caption" }, h("code", {}, command)),
    h("button", { "data-key": "close", onclick: () => set({ cell: "" }) }, "Close"));
  requestAnimationFrame(() => panel.scrollIntoView({ block: "nearest" }));
  return panel;
}

/** Lines of code with their numbers. */
function listing(label, lines) {
  return h("div", { class: "scroll code", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, lines.map(([number, text]) =>
      h("tr", {}, h("td", { class: "number" }, String(number)), h("td", {}, h("code", {}, text))))));
}
