// Elements, and the state of the page, which is in the fragment of its address and nowhere else.

/** Make an element: attributes, `on...` listeners, and what is in it. */
function h(tag, attributes, ...within) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...within.flat(2).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

const plural = (number, noun, many) =>
  `${number.toLocaleString("en")} ${number === 1 ? noun : many ?? `${noun}s`}`;

const DEFAULTS = {
  view: "table", fleet: "sticky", policy: "call again", old: "no", harms: "", sort: "",
  subjects: "", era: "modern", faults: "", round: "", step: "", left: "E", right: "F",
};

/** The state that a fragment stands for. */
function stateOf(fragment) {
  const given = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
  return { ...DEFAULTS, ...given };
}

/** The fragment for a state; what is as usual is left out. */
function fragmentOf(state) {
  const unusual = Object.entries(state).filter(([name, value]) => DEFAULTS[name] !== value);
  const text = new URLSearchParams(unusual.filter(([name]) => name in DEFAULTS)).toString();
  return `#${text.replaceAll("%2C", ",").replaceAll("%40", "@").replaceAll("%2B", "%2B")}`;
}

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
