"""What the server knows of a call stays in a table that all instances on a ledger share; an id goes over the wire.

The last round is done once: the state that led to it keeps its answer and its report. This stands behind
`hmac_json.py` in one file, and has of it what is about the tool and the client.
"""

from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(f"{os.path.abspath(LEDGER)}-rounds")
FOLDER.mkdir(mode=0o700, exist_ok=True)
AGE, LEASE = 600, 5
REFUSED = "This requestState is not one that you can use for this call now."


@contextmanager
def open_db(path):
    with closing(sqlite3.connect(path, timeout=3, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")


with open_db(FOLDER / "rounds.sqlite") as db:
    db.execute("CREATE TABLE IF NOT EXISTS rounds (id TEXT PRIMARY KEY, owner TEXT, place TEXT, born REAL)")
    db.execute("CREATE TABLE IF NOT EXISTS ends (id TEXT PRIMARY KEY, answer TEXT, report TEXT, until REAL)")


def effect(kind, subject, key=None):
    try:
        with open_db(LEDGER) as db:
            db.execute("INSERT INTO effects (kind, subject, key, at) VALUES (?, ?, ?, ?)",
                       (kind, subject, key, datetime.now(timezone.utc).isoformat()))
    except sqlite3.Error:
        raise MCPError(types.INTERNAL_ERROR, f"There is no {kind} at the moment. Please retry.") from None


def remember(owner, place):
    name, now = secrets.token_urlsafe(24), time.time()
    with open_db(FOLDER / "rounds.sqlite") as db:
        db.execute("DELETE FROM rounds WHERE born < ?", (now - 2 * AGE,))
        db.execute("DELETE FROM ends WHERE until < ?", (now - 2 * AGE,))
        db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?)", (name, owner, place, now))
    return name


def recall(name, owner):
    with open_db(FOLDER / "rounds.sqlite") as db:
        row = db.execute("SELECT place, born FROM rounds WHERE id = ? AND owner = ?", (name, owner)).fetchone()
    if row is None or time.time() - row[1] > AGE:
        raise MCPError(types.INVALID_PARAMS, REFUSED)
    return row[0]


def finish(name, answer, place, report):
    """Bill and keep the report, once for each state; None while another delivery is at it."""
    with open_db(FOLDER / "rounds.sqlite") as db:
        row = db.execute("SELECT answer, report, until FROM ends WHERE id = ?", (name,)).fetchone()
        mine = row is None or (row[1] is None and row[2] < time.time())
        if mine:
            db.execute("INSERT OR REPLACE INTO ends VALUES (?, ?, NULL, ?)", (name, answer, time.time() + LEASE))
    if not mine:
        if row[0] != answer:
            raise MCPError(types.INVALID_PARAMS, REFUSED)
        return row[1]
    try:
        effect("bill", place, name)
    except MCPError:
        with open_db(FOLDER / "rounds.sqlite") as db:
            db.execute("DELETE FROM ends WHERE id = ?", (name,))
        raise
    with open_db(FOLDER / "rounds.sqlite") as db:
        db.execute("UPDATE ends SET report = ? WHERE id = ?", (report, name))
    return report


def chosen(name, choices, answer):
    choice = fits(name, choices, answer)
    return choice or text({"decline": "It was declined.", "cancel": "It was cancelled."}[answer["action"]])


async def question(ctx, owner, place, name, message, choices):
    """A choice, a result that ends the round, or None if no user can be asked."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    answers = ctx.meta[ANSWERS] if modern and ctx.params.get("requestState") is not None else {}
    if name in answers:
        return chosen(name, choices, answers[name])
    if not can_be_asked(ctx):
        return None
    schema = {"type": "object", "required": [name], "properties": {name: {"type": "string", "enum": choices}}}
    if modern:
        form = types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))
        state = await anyio.to_thread.run_sync(remember, owner, place)
        return types.InputRequiredResult(input_requests={name: form}, request_state=state)
    return chosen(name, choices, await pushed(ctx, name, message, schema))


async def call_tool(ctx, params):
    match params.name, params.arguments:
        case "weather", {"location": str(location), **rest} if not rest and 1 <= len(location) <= 100:
            pass
        case _:
            raise MCPError(types.INVALID_PARAMS, "weather takes one location of 1 to 100 characters.")
    if location.encode(errors="replace") != location.encode(errors="ignore"):
        raise MCPError(types.INVALID_PARAMS, "The location holds half a character.")
    run, state, place = anyio.to_thread.run_sync, params.request_state, None
    principal = ((ctx.params or {}).get("_meta") or {}).get(PRINCIPAL)
    owner = hashlib.sha256(json.dumps([principal, location]).encode()).hexdigest()
    if state is not None:
        place = await run(recall, state, owner)
    await run(effect, "audit", location)
    asked = location.strip(" \t\n\r\f\v")
    found = [p for p in WEATHER if asked.lower() in (p.lower(), p.lower().split(",")[0])]
    if not found:
        return text(f"{asked}: unknown.", is_error=True)
    if place is None and len(found) > 1:
        place = await question(ctx, owner, None, "place", f"Which {asked}?", found)
        if not isinstance(place, str):
            return place or text(f"Please name the place: {' or '.join(found)}.", is_error=True)
    place = place or found[0]
    units = await question(ctx, owner, place, "units", f"Which units for {place}?", ["metric", "imperial"])
    if not isinstance(units, str | None):
        return units
    celsius, sky = WEATHER[place]
    degrees = f"{round(celsius * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
    report = f"{place}: {degrees}, {sky}." + ("" if units else " (metric assumed: this client cannot be asked)")
    if state is None:
        await run(effect, "bill", place)
        return text(report)
    while (done := await run(finish, state, f"{place} in {units}", place, report)) is None:
        await anyio.sleep(0.05)
    return text(done)


server = Server("weather-table", on_list_tools=list_tools, on_call_tool=call_tool)
server.middleware.append(answers_as_sent)
