// The runs: unpacked once, then looked up by their faults. Nothing here decides what happens in a run.

/** Unpack the JSON that Python put into the page. */
async function unpacked() {
  const packed = atob(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(packed, (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** A set of faults as a key, whatever their order. */
const keyOf = (faults) => [...faults].sort().join(" ");

/** Find worlds by who is called by which client, and names by what they name. */
function index(data) {
  data.found = new Map(data.worlds.map((world) => [`${world.subject} ${world.policy}`, world]));
  data.faultNames = Object.keys(data.names);
  data.bySubject = new Map(data.subjects.map((subject) => [subject.name, subject]));
}

/** The world in which a subject is called by a client that resends, or by one that calls again. */
const worldOf = (data, name, { policy }) => data.found.get(`${name} ${policy}`);

/** The runs of a world: for each set of faults the number of its story. */
function runsOf(data, world) {
  if (world.runs) return world.runs;
  const sets = [];
  world.runs = new Map();
  world.before.forEach((before, number) => {
    const faults = before < 0 ? [] : [...sets[before], data.faultNames[world.added[number]]];
    sets.push(faults);
    if (world.stories[number] >= 0) world.runs.set(keyOf(faults), world.stories[number]);
  });
  return world.runs;
}

/** One run, ready to be drawn; `left` are the faults that no run of this world has. */
function runOf(data, world, faults) {
  const runs = runsOf(data, world);
  for (const kept of parts(faults, Math.max(world.every, 2))) {
    const number = runs.get(keyOf(kept));
    if (number === undefined) continue;
    const [heads, steps, what, text, audits, bills, due, shown] = data.stories[number];
    return {
      faults: kept,
      left: faults.filter((name) => !kept.includes(name)),
      heads: data.heads[heads],
      steps: steps.map((each) => data.steps[each]),
      end: { what, text },
      audits, bills, due,
      anomalies: shown.map((each) => data.anomalies[each].name),
    };
  }
}

/** The sets of at most so many of these faults, the largest first, and of those the latest named. */
const parts = (faults, most) => faults
  .reduce((found, name) => [...found, ...found.filter(({ length }) => length < most).map((each) => [...each, name])], [[]])
  .reverse().sort((one, other) => other.length - one.length);

/** A fault's name in parts: "lost3.2" is { kind: "lost", place: "3.2" }. */
function faultOf(name) {
  const [, kind, place] = /^(.*?)(\d[\d.]*)$/.exec(name);
  return { kind, place };
}

/** A state without what this page does not have, and that by name: a link may be old, or mistyped. */
function known(data, given) {
  const state = { ...given }, unknown = Object.keys(given).filter((name) => name && !Object.hasOwn(DEFAULTS, name));
  const values = {
    view: Object.keys(VIEWS), policy: data.worlds.map(({ policy }) => policy), left: Object.keys(data.options), right: Object.keys(data.options),
    board: Object.keys(BOARDS),
    ...Object.fromEntries(Object.keys(data.questions).map((name) => [name, ["yes", "no"]])),
  };
  for (const [name, those] of Object.entries(values)) {
    if (state[name] === DEFAULTS[name] || those.includes(state[name])) continue;
    unknown.push(state[name]);
    state[name] = DEFAULTS[name];
  }
  const isSubject = (name) => data.bySubject.has(name);
  const isFault = (name) => /\D\d(\.\d)?$/.test(name) && Object.hasOwn(data.faults, faultOf(name).kind);
  for (const [name, has, most] of [["subjects", isSubject, 2], ["faults", isFault, 9]]) {
    const all = [...new Set(state[name].split(",").filter(Boolean))], kept = all.filter(has).slice(0, most);
    unknown.push(...all.filter((each) => !kept.includes(each)));
    state[name] = kept.join(",");
  }
  const cellAt = { options: optionAt, redeploys: redeployAt, clients: isCell, scoreboard: isCell }[state.view];
  if (state.cell && !cellAt?.(data, state.cell)) {
    unknown.push(state.cell);
    state.cell = "";
  }
  if (!/^([1-9]\d{0,3}|end)$/.test(state.step)) state.step = "";
  return { state, unknown };
}

/** The names of some faults by round, as the terminal has them. */
function inOrder(faults) {
  const key = (name) => { const { kind, place } = faultOf(name); return `${place.includes(".") ? place : `${place}.1`} ${kind}`; };
  return faults.split(" ").sort((one, other) => (key(one) < key(other) ? -1 : 1));
}

/** Some faults in the words of a cell. */
const wordsOf = (data, faults) => (faults ? inOrder(faults).map((name) => data.names[name]?.words ?? name).join(", ") : "every call");

/** Some faults as the terminal says them: "one fault: response 3 is lost (lost3)". */
function sentence(data, faults) {
  if (!faults) return "every call";
  const names = inOrder(faults);
  return `${["", "one fault", "two faults"][names.length] ?? `${names.length} faults`}: ${names.map((name) => `${data.names[name]?.says ?? "unknown"} (${name})`).join("; ")}`;
}
