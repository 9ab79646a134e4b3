// One run as a sequence diagram: time goes down, rounds are bands, what can go wrong is a button.

const ROW = 38, HEAD = 30, GUTTER = 44;

/** Where each step is drawn: those without a row of their own belong to the one before. */
function rowsOf(run) {
  const sent = new Set();
  return run.steps.flatMap((step, number) => {
    const [kind] = step;
    if (kind === "lines") return [];
    const again = kind === "sent" && sent.has(step[3]);
    if (kind === "sent") sent.add(step[3]);
    return [{ step, number, kind, again }];
  });
}

/** The client's name for each round of a run, as in "3.2"; others have none. */
function placesOf(run) {
  const places = new Map();
  for (const [kind, place, , round] of run.steps) if (kind === "sent" && place) places.set(round, place);
  return places;
}

/** The round that a step belongs to, as the history counts; null for what belongs to none. */
function roundOf([kind, ...rest]) {
  return { sent: rest[2], got: rest[2], effect: rest[3], failed: rest[2], died: rest[1], user: rest[1], lines: rest[1], kept: rest[1] }[kind] ?? null;
}

/**
 * Draw a run.
 * last: the number of the last step that is drawn. round: the one that is selected.
 * offer(where, place, element): opens the menu. choose(round): selects a round.
 */
function diagram(run, { width, last, round, offer, choose, due }) {
  const rows = rowsOf(run).filter(({ number }) => number <= last);
  const places = placesOf(run);
  const instances = 1 + Math.max(0, ...run.steps.map(instanceOf).filter((each) => each !== null));
  const right = width - 34, client = GUTTER + 24, keeps = run.steps.some(([kind]) => kind === "kept");
  const across = (part) => client + (right - client) * part;
  const at = (place) => across(keeps ? (instances === 1 ? 0.5 : 0.4 + 0.2 * place) : instances === 1 ? 0.66 : 0.5 + 0.27 * place);
  const base = keeps && across(0.8);
  const height = HEAD + rows.length * ROW + 12;
  const lanes = [[client, "client"], ...Array.from({ length: instances }, (_, place) =>
    [at(place), instances === 1 ? "server" : `server ${place + 1}`]), ...(keeps ? [[base, "database"]] : []), [right, "effects"]];
  const drawn = s("svg", { class: "diagram", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "sequence of the call" },
    bands(rows, places, width, round, choose),
    lanes.map(([x, name]) => [
      s("text", { x, y: 18, class: "lane", "text-anchor": name === "effects" ? "end" : "middle", dx: name === "effects" ? 30 : 0 }, name),
      s("line", { x1: x, x2: x, y1: HEAD - 4, y2: height, class: "lane" }),
    ]));
  const offered = new Set();
  rows.forEach((row, place) => {
    const y = HEAD + place * ROW + 26;
    drawn.append(rowElement(row, { y, client, right, at, base, width, places, offer, offered, due, run }));
  });
  return drawn;
}

function instanceOf([kind, ...rest]) {
  return { sent: rest[1], got: rest[1], effect: rest[2], failed: rest[1], died: rest[0], user: rest[0], kept: rest[0] }[kind] ?? null;
}

/** A band behind the rows of each round, with a button that selects it. */
function bands(rows, places, width, selected, choose) {
  const found = [];
  rows.forEach(({ step }, place) => {
    const round = roundOf(step), latest = found.at(-1);
    if (latest && (latest.round === round || round === null)) latest.last = place;
    else if (round !== null) found.push({ round, first: place, last: place });
  });
  const named = new Set();
  return found.map(({ round, first, last }, number) => {
    const y = HEAD + first * ROW, height = (last - first + 1) * ROW;
    const name = places.get(round) ?? "+";
    const button = !named.has(round) && { "data-key": `round-${round}`, role: "button", tabindex: 0,
      "aria-label": `round ${name}: mark its lines`, "aria-pressed": String(round === selected) };
    named.add(round);
    return s("g", { class: `band ${number % 2 ? "odd" : ""} ${round === selected ? "selected" : ""}`,
      ...button, onclick: () => choose(round), onkeydown: onEnter(() => choose(round)) },
      s("rect", { x: 0, y, width, height }),
      s("text", { x: 8, y: y + 24, class: "round" }, name === "+" ? "" : name));
  });
}

const onEnter = (act) => (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  act(event);
};

function rowElement({ step, number, kind, again }, space) {
  const { y, client, right, at, base, width, places, offered, due } = space;
  const text = (x, words, attributes) => s("text", { x, y: y - 6, ...attributes }, s("title", {}, words), words);
  const room = (from, to) => Math.max(4, Math.floor(Math.abs(to - from) / 6.6));
  switch (kind) {
    case "sent": {
      const [, place, instance, , call, words] = step;
      const x = at(instance), says = words + (again ? " (again)" : call > 1 ? ` (call ${call})` : "");
      return offering("request", place && !again && call === 1 && place, `request ${place}: ${says}`, space,
        arrow(client, x, y, again ? "again" : ""), text(client + 8, short(says, room(client, x)), {}));
    }
    case "got": {
      const [, place, instance, round, call, what, words, lost] = step;
      const x = at(instance), middle = x - (x - client) / 4;
      const first = !offered.has(round);
      offered.add(round);
      return offering("response", place && first && call === 1 && place, `response ${place}: ${words}${lost ? ", lost" : ""}`, space,
        lost ? [arrow(x, middle, y, "lost"), cross(middle, y)] : arrow(x, client, y, what),
        text(client + 8, short(lost && what !== "nothing" ? `lost: ${words}` : words, room(client, lost ? middle - 12 : x)), { class: lost ? "lost" : what }));
    }
    case "effect": {
      const [, what, times, instance, round] = step;
      const from = instance === null ? client : at(instance);
      const twice = times > due ? "twice" : "";
      const says = times ? `${what} ${times}` : `${what}, absorbed`;
      return offering(what, places.get(round), `${says}, in round ${places.get(round) ?? ""}`, space,
        arrow(from, right, y, `effect ${twice}`), s("circle", { cx: right, cy: y, r: 6, class: `effect ${what} ${twice}` }),
        text((from + right) / 2, says, { class: `effect ${twice}`, "text-anchor": "middle" }));
    }
    case "kept": {
      const [, instance, , words] = step, x = instance === null ? base - 20 : at(instance);
      return s("g", {}, arrow(x, base, y, "kept"), s("rect", { x: base - 4, y: y - 4, width: 8, height: 8, class: "kept" }),
        text(base - 8, words, { class: "kept", "text-anchor": "end" }));
    }
    case "failed":
      return s("g", {}, arrow(at(step[2]), (at(step[2]) + right) / 2, y, "lost"), cross((at(step[2]) + right) / 2, y),
        text((at(step[2]) + right) / 2, `${step[1]} fails`, { class: "lost", "text-anchor": "middle" }));
    case "died":
      return s("g", {}, cross(at(step[1]), y - 4), text(at(step[1]) + 12, "crashes", { class: "lost" }));
    case "user": {
      const [, instance, , words, answers] = step, x = at(instance);
      return s("g", {}, answers ? arrow(client, x, y, "answer") : arrow(x, client, y, "question"),
        text(client + 8, short(answers ? `answers ${words}` : `asks: ${words}`, room(client, x)), { class: answers ? "" : "question" }));
    }
    default:
      return s("g", {}, s("line", { x1: GUTTER, x2: width, y1: y - 10, y2: y - 10, class: "note" }),
        s("text", { x: (GUTTER + width) / 2, y: y - 6, class: "note", "text-anchor": "middle" }, step[1]));
  }
}

const short = (words, room) => (words.length > room ? `${words.slice(0, Math.max(1, room - 1))}…` : words);

const cross = (x, y) => s("path", { d: `M${x - 6} ${y - 6}l12 12m0 -12l-12 12`, class: "cross" });

function arrow(from, to, y, kind) {
  const way = Math.sign(to - from);
  const head = kind === "lost" ? "" : ` M${to - 8 * way} ${y - 4.5}L${to} ${y}L${to - 8 * way} ${y + 4.5}`;
  return s("path", { d: `M${from} ${y}H${to}${head}`, class: `arrow ${kind}` });
}

/** Make a row a button that opens the menu of what can go wrong there. */
function offering(where, place, label, { y, width, offer }, ...drawn) {
  if (!place) return s("g", {}, drawn);
  const open = (event) => offer(where, place, event.currentTarget);
  return s("g", {
    class: "offer", role: "button", tabindex: 0, "aria-haspopup": "menu", "aria-label": label,
    "data-key": `${where}-${place}`, "data-at": `${where} ${place}`, onclick: open, onkeydown: onEnter(open),
  }, s("rect", { x: GUTTER, y: y - 24, width: width - GUTTER - 2, height: ROW - 4, rx: 4, class: "hit" }), drawn,
    s("circle", { cx: GUTTER + 8, cy: y - 10, r: 3.5, class: "handle" }));
}
