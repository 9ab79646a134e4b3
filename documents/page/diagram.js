// Runs as sequence diagrams: their rows come drawn, time goes down, rounds are bands, and what can go wrong
// is a button. Rounds of two runs stand side by side.

/** The rows of a run by round; `at` is how many of its steps there are with a row. */
function bandsOf(run) {
  const bands = [];
  run.steps.forEach((step, number) => {
    if (!step.svg) return;
    const latest = bands.at(-1), row = { step, at: number + 1 };
    if (latest && (latest.round === step.round || step.round === null)) latest.rows.push(row);
    else bands.push({ round: step.round, place: step.place, rows: [row] });
  });
  return bands;
}

/** The bands of one or two runs in common slots: equal rounds share one. Each slot is as high as its highest band. */
function slotsOf(runs) {
  const [left, right] = runs.map(bandsOf), slots = [];
  if (!right) return left.map((band) => ({ bands: [band], height: band.rows.length }));
  const has = (bands, place) => bands.some((each) => each.place === place);
  while (left.length || right.length) {
    const [one, other] = [left[0], right[0]];
    const together = one && other && one.place === other.place;
    const isOther = !together && (!one || (other && has(right, one.place)));
    const bands = together ? [left.shift(), right.shift()] : isOther ? [undefined, right.shift()] : [left.shift(), undefined];
    slots.push({ bands, height: Math.max(...bands.map((band) => band?.rows.length ?? 0)) });
  }
  return slots;
}

const heightOf = (slots) => slots.reduce((sum, { height }) => sum + height, 0);

/** How many steps of a run there are by so many common rows. */
function stepsAt(run, slots, place, rows) {
  if (rows >= heightOf(slots)) return run.steps.length;
  let left = rows, at = 0;
  for (const { bands, height } of slots) {
    const seen = bands[place]?.rows.slice(0, Math.max(0, left)) ?? [];
    at = seen.at(-1)?.at ?? at;
    left -= height;
  }
  return at;
}

/**
 * Show a run. slots: see above. place: which of their bands are the run's. seen: how many of its steps are.
 * round: the one that is selected. offer(where, place, element): opens the menu. choose(round): selects one.
 */
function diagram(run, slots, place, seen, { round, offer, choose }) {
  const named = new Set();
  return h("div", { class: "diagram", role: "group", "aria-label": "sequence of the call" },
    drawing("lanes", run.heads),
    slots.map(({ bands, height }) => {
      const band = bands[place];
      const blank = Array.from({ length: height - (band?.rows.length ?? 0) }, () => h("span", { class: "row" }));
      if (!band) return h("div", { class: "band" }, blank);
      const selected = band.round === round, first = band.place && !named.has(band.round);
      named.add(band.round);
      return h("div", { class: `band ${selected ? "selected" : ""}`, onclick: () => choose && band.round !== null && choose(band.round) },
        first && choose && h("button", { type: "button", class: "round", "data-key": `round-${band.round}`,
          "aria-label": `round ${band.place}: mark its lines`, "aria-pressed": String(selected) }, band.place),
        band.rows.map(({ step, at }) => rowOf(step, at > seen, offer)), blank);
    }));
}

/** One row; a button that opens the menu of what can go wrong there, if anything can. */
function rowOf({ svg, says, offers, place }, later, offer) {
  const row = drawing(`row ${later ? "later" : ""}`, svg);
  if (!offers || !offer) return h("div", { role: "img", "aria-label": says, title: says }, row);
  const at = `${offers} ${place}`;
  return h("button", { type: "button", class: "offer", "aria-haspopup": "menu", "aria-label": `${at}: ${says}`, title: says,
    "data-key": at.replace(" ", "-"), "data-at": at,
    onclick: (event) => { event.stopPropagation(); offer(offers, place, event.currentTarget); } }, row);
}

/** What Python drew; it is as wide as there is room. */
function drawing(kind, within) {
  const drawn = h("span", { class: kind });
  drawn.innerHTML = `<svg width="100%" height="100%" aria-hidden="true">${within}</svg>`;
  return drawn;
}

/** A run as a file of its own. */
function svgOf(run, title) {
  const rows = run.steps.filter(({ svg }) => svg), height = 72 + rows.length * 30;
  const style = document.querySelector("style").textContent.split("/* diagrams */")[1];
  const text = h("i", {}, title).innerHTML;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 ${height}" class="diagram"><title>${text}</title><style>${style}</style>`
    + `<rect class="page" width="720" height="${height}" rx="6"/><text class="title" x="20" y="26">${text}</text>`
    + `<svg y="36" height="${height - 48}">${run.heads}</svg>`
    + `${rows.map(({ svg }, number) => `<svg y="${62 + number * 30}" height="30">${svg}</svg>`).join("")}</svg>\n`;
}
