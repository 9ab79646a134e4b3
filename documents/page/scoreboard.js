// The scoreboard: boards whose cells open their run.

const BOARDS = {
  servers: "Servers", frameworks: "Frameworks", proxies: "Proxies", failures: "All failures",
};

const ABOUT = {
  servers: "The weather tool on the servers of others, written as the guide of each library says. An arrow is what the library's own options add. Counts are audits/bills; a call should be 1/1. Resent: the last round is sent once more, as by a client that is redirected or needs a new token, or by a proxy that is told to.",
  frameworks: "The same tool outside of MCP, in each form that a framework documents. Each delivery is a process of its own. Counts are audits/bills. Ignored answer: one answer was taken for two questions. Other user: another user answers with the first user's pause; only Google ADK and Agno know their users.",
  proxies: "Two instances behind a proxy, and one fault in the last round. Was the POST sent again? How often was the user charged by the tool by hand (E), with once (F), and with once in the guard? What did the client get? A run is not kept: python -m scoreboard.proxies --only NAME --fault FAULT plays a cell.",
  failures: "The least that has to go wrong for each failure, of every fault that can be made from outside. Each run that is kept can be opened; of servers these are the runs of a client that resends.",
};

const HARM = /^(\w+: )?(taken|twice|every call lost|empty result|reaches the client|lost\b)|^again[^;]*; (\d\/)?2|^MRTR: servers MUST|charged twice|other words used|not asked|ignored answer|billed what was no choice/;
const UNCERTAIN = /^(not run|not played|harness limitation|not spoken|no state)/;
const WELL = /^(refused$|once|works|stays inside|none$|no: holds|not taken|(not )?again[^;]*; 1\/1\/1; result|result, 2 asked|1\/1$)/;

/** The class of a cell, by the outcome of the documented form, and of what options add. */
function harm(says, adds) {
  if (HARM.test(says)) return "one";
  if (adds && HARM.test(adds)) return "two";
  if (UNCERTAIN.test(says)) return "untried";
  return WELL.test(says) ? "good" : "";
}

/** The class of a failure, by the least that has to go wrong. */
const failure = (says) => (/^(every call|no call)/.test(says) ? "every" : "one");

const nameOf = ({ title, form }) => (form ? `${title}, ${plain(form)}` : title);
const plain = (text) => text.replaceAll("`", "");
const linkless = (text) => plain(text.replace(/\[(.*?)\]\(.*?\)/g, "$1"));

/** The addresses of a cell's runs: of the documented form, and of what options add. */
const runsAt = (data, cell) => Object.keys(data.scoreboard.runs).filter((each) => each === cell || each.startsWith(`${cell}/`));

/** A row and a column for a cell's address; undefined where there is no such cell. */
function cellAt(data, cell) {
  const at = cell.lastIndexOf("/"), id = cell.slice(0, at), column = cell.slice(at + 1);
  const tables = [...Object.values(data.scoreboard.boards), ...Object.values(data.scoreboard.failures)];
  for (const { heads, rows } of tables) {
    const row = rows.find((each) => each.id === id && each.cells[column]), head = heads.find(([name]) => name === column);
    if (row && head) return { row, column, head: head[1] };
  }
  return cellAtAddition(data, id, column);
}

/** The cell whose options' run has this address, such as servers/neva/two-instances/hardened. */
function cellAtAddition(data, cell, setting) {
  if (!Object.hasOwn(data.scoreboard.runs, `${cell}/${setting}`) || cell.split("/").length < 3) return undefined;
  return cellAt(data, cell);
}

/** Whether an address is that of a cell or a run on this page. */
const isCell = (data, cell) => Object.hasOwn(data.scoreboard.runs, cell) || cellAt(data, cell) !== undefined;

function scoreboardView(data, state, set) {
  const { board, cell } = state;
  const title = { servers: "Servers that others ship", frameworks: "Frameworks that pause for a person", proxies: "Who sends a request twice", failures: "Every failure that was found" }[board];
  return [
    h("h1", {}, title),
    h("ul", { class: "pairs" }, Object.entries(BOARDS).map(([name, says]) => h("li", {}, h("a", {
      href: fragmentOf({ ...DEFAULTS, view: "scoreboard", board: name }), "aria-current": board === name && "true",
    }, says)))),
    h("p", { class: "caption" }, ABOUT[board]),
    cell && opened(data, state, set),
    ...(board === "failures" ? failuresOf : boardOf)(data, state),
  ];
}

function boardOf(data, state) {
  const { heads, rows } = data.scoreboard.boards[state.board];
  return [
    h("p", { class: "key" }, h("span", { class: "one" }, "somebody is harmed"), h("span", { class: "two" }, "harmed with what options add"), h("span", { class: "good" }, "as it should be"), h("span", { class: "untried" }, "nothing known")),
    grid(data, state, BOARDS[state.board], heads, rows, state.board !== "proxies"),
    h("p", { class: "caption" }, state.board !== "proxies" && "A library's name opens what its documentation says, and what an author can do. ", fileLink(`docs/results/SCOREBOARD${state.board === "proxies" ? "_PROXIES" : ""}.md`, "Versions and pages"), ". A cell's address stays."),
  ];
}

function failuresOf(data, state) {
  const key = h("p", { class: "key" }, h("span", { class: "every" }, "every call"), h("span", { class: "one" }, "one fault"), h("span", {}, "empty: not seen"));
  return [key, ...Object.entries(data.scoreboard.failures).flatMap(([title, { heads, rows }]) => [
    h("h2", { class: "title" }, title), grid(data, state, title, heads, rows, false, !/calls again|either/.test(title))])];
}

/** A board as a table. `asksUpstream`: with what maintainers know; `opens`: cells open their run. */
function grid(data, state, label, heads, rows, asksUpstream, opens = true) {
  const columns = heads.map(([name]) => name), look = state.board === "failures" && !label.endsWith("each case") ? failure : harm;
  const cellOf = (row, column) => {
    const [says, adds] = row.cells[column] ?? ["", ""], cell = `${row.id}/${column}`;
    const within = [plain(says), adds && h("small", {}, ` → ${plain(adds)}`)];
    const runs = opens && says && runsAt(data, cell).length > 0;
    return h("td", { class: says && look(says, adds), id: opens && state.board !== "failures" ? cell : undefined, "data-open": state.cell === cell },
      runs ? h("a", { href: fragmentOf({ ...DEFAULTS, view: "scoreboard", board: state.board, cell }) }, within) : within);
  };
  const about = (row) => `${row.id.split("/", 2).join("/")}/about`;
  const title = (row) => (Object.hasOwn(data.scoreboard.runs, about(row)) ? h("a", { href: fragmentOf({ ...DEFAULTS, view: "scoreboard", board: state.board, cell: about(row) }) }, row.title) : row.title);
  const head = (row) => h("th", { scope: "row" }, h("b", {}, title(row)), ` ${row.version}`, row.form && h("small", {}, ` ${plain(row.form)}`), " ", h("small", { class: "day" }, row.date));
  const known = ({ upstream }) => h("td", { class: upstream === "not reported" ? "untried" : "" }, linkless(upstream));
  return cards(label, ["library", ...heads.map(([, says]) => says), ...(asksUpstream ? ["upstream"] : [])], [["", rows.map((row) => [
    head(row), ...columns.map((column) => cellOf(row, column)), ...(asksUpstream ? [known(row)] : [])])]]);
}

/** What is different in another run of a cell: the server, or the library's own options. */
const settingOf = (data, name) => data.bySubject.get(name === "default" ? data.default : name)?.title ?? `other settings (${name})`;

/** The run of the chosen cell. */
function opened(data, { cell }, set) {
  const found = cellAt(data, cell), [says, adds] = found?.row.cells[found.column] ?? ["", ""], runs = runsAt(data, cell);
  return openedCell(found ? [h("b", {}, nameOf(found.row)), ` ${found.row.version}: ${found.head}`] : h("b", {}, cell), [
    found && h("p", {}, plain(says), adds && ` → ${plain(adds)}`),
    runs.map((address) => [
      address !== cell && h("p", { class: "caption" }, `With ${settingOf(data, address.slice(cell.length + 1))}:`),
      listing(`run of ${address}`, data.scoreboard.runs[address].map((number, place) => [place + 1, data.scoreboard.lines[number]])),
    ])], `python -m scoreboard.rounds --run ${runs[0] ?? cell}`, set);
}
