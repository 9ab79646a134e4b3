// One run as a sequence diagram: its rows come drawn, time goes down, rounds are bands, what can go wrong
// is a button.

/**
 * Show steps of a run.
 * round: the one that is selected. offer(where, place, element): opens the menu. choose(round): selects one.
 */
function diagram(run, steps, { round, offer, choose }) {
  const bands = [];
  for (const step of steps.filter(({ svg }) => svg)) {
    const latest = bands.at(-1);
    if (latest && (latest.round === step.round || step.round === null)) latest.rows.push(step);
    else bands.push({ round: step.round, place: step.place, rows: [step] });
  }
  const named = new Set();
  return h("div", { class: "diagram", role: "group", "aria-label": "sequence of the call" },
    drawing("lanes", run.heads),
    bands.map((band) => {
      const selected = band.round === round, first = band.place && !named.has(band.round);
      named.add(band.round);
      return h("div", { class: `band ${selected ? "selected" : ""}`, onclick: () => band.round !== null && choose(band.round) },
        first && h("button", { type: "button", class: "round", "data-key": `round-${band.round}`,
          "aria-label": `round ${band.place}: mark its lines`, "aria-pressed": String(selected) }, band.place),
        band.rows.map((step) => rowOf(step, offer)));
    }));
}

/** One row; a button that opens the menu of what can go wrong there, if anything can. */
function rowOf({ svg, says, offers, place }, offer) {
  if (!offers) return drawing("row", svg);
  const at = `${offers} ${place}`;
  return h("button", { type: "button", class: "offer", "aria-haspopup": "menu", "aria-label": `${at}: ${says}`,
    "data-key": at.replace(" ", "-"), "data-at": at,
    onclick: (event) => { event.stopPropagation(); offer(offers, place, event.currentTarget); } }, drawing("row", svg));
}

/** What Python drew; it is as wide as there is room. */
function drawing(kind, within) {
  const drawn = h("span", { class: kind });
  drawn.innerHTML = `<svg width="100%" height="100%" aria-hidden="true">${within}</svg>`;
  return drawn;
}
