//! The weather tool's domain for the servers in Rust: places, texts, and the ledger (docs/CONTRACT.md).

use std::time::Duration;

pub const TODAY: [(&str, i32, &str); 9] = [
    ("Lisbon, Portugal", 24, "sunny"),
    ("Nairobi, Kenya", 23, "light cloud"),
    ("Portland, Maine", 14, "fog"),
    ("Portland, Oregon", 16, "drizzle"),
    ("Reykjavik, Iceland", 7, "windy"),
    ("Springfield, Illinois", 22, "partly cloudy"),
    ("Springfield, Massachusetts", 17, "rain"),
    ("Springfield, Missouri", 26, "sunny"),
    ("Tokyo, Japan", 19, "clear"),
];

pub fn trimmed(location: &str) -> &str {
    location.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

/// The places that a location may mean.
pub fn places(location: &str) -> Vec<&'static str> {
    let wanted = trimmed(location);
    let city = |name: &'static str| name.split(',').next().unwrap_or(name);
    let names = TODAY.iter().map(|(name, ..)| *name);
    names
        .filter(|name| [name, city(name)].iter().any(|each| each.eq_ignore_ascii_case(wanted)))
        .collect()
}

/// The tool's result; without units, metric is assumed.
pub fn report(place: &str, units: Option<&str>) -> String {
    let Some((name, celsius, sky)) = TODAY.iter().find(|(name, ..)| *name == place) else {
        return format!("There is no {place}.");
    };
    let degrees = match units {
        Some("imperial") => format!("{:.0} °F", (f64::from(*celsius) * 1.8 + 32.0).round()),
        _ => format!("{celsius} °C"),
    };
    let assumed = if units.is_none() { " (metric assumed: this client cannot be asked)" } else { "" };
    format!("{name}: {degrees}, {sky}.{assumed}")
}

/// A lookup was requested.
pub fn audit(location: &str) -> rusqlite::Result<()> {
    record("audit", location)
}

/// A lookup is metered.
pub fn bill(place: &str) -> rusqlite::Result<()> {
    record("bill", place)
}

fn record(kind: &str, subject: &str) -> rusqlite::Result<()> {
    let db = rusqlite::Connection::open(std::env::var("MRTR_LEDGER").unwrap_or_default())?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,
         subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)",
    )?;
    db.execute(
        "INSERT INTO effects (kind, subject, at) VALUES (?, ?, strftime('%Y-%m-%dT%H:%M:%fZ'))",
        [kind, subject],
    )?;
    Ok(())
}
