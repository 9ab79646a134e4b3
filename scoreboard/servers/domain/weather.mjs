// The weather tool's domain for the servers in JavaScript: places, texts, and the ledger (docs/CONTRACT.md).

import { DatabaseSync } from 'node:sqlite';

export const today = {
    'Lisbon, Portugal': [24, 'sunny'],
    'Nairobi, Kenya': [23, 'light cloud'],
    'Portland, Maine': [14, 'fog'],
    'Portland, Oregon': [16, 'drizzle'],
    'Reykjavik, Iceland': [7, 'windy'],
    'Springfield, Illinois': [22, 'partly cloudy'],
    'Springfield, Massachusetts': [17, 'rain'],
    'Springfield, Missouri': [26, 'sunny'],
    'Tokyo, Japan': [19, 'clear'],
};

export const trimmed = (location) => location.replace(/^[ \t\n\r\f\v]+|[ \t\n\r\f\v]+$/g, '');

export function places(location) {
    const wanted = trimmed(location).toLowerCase();
    return Object.keys(today).filter((name) => [name, name.split(',')[0]].some((each) => each.toLowerCase() === wanted));
}

export function report(place, units) {
    const [celsius, sky] = today[place];
    const degrees = units === 'imperial' ? `${Math.round(celsius * 1.8 + 32)} °F` : `${celsius} °C`;
    return `${place}: ${degrees}, ${sky}.${units ? '' : ' (metric assumed: this client cannot be asked)'}`;
}

export const audit = (location) => record('audit', location);
export const bill = (place) => record('bill', place);

function record(kind, subject) {
    const db = new DatabaseSync(process.env.MRTR_LEDGER);
    try {
        db.exec('PRAGMA busy_timeout = 5000');
        db.exec(
            'CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,' +
                ' subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)',
        );
        db.prepare('INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)').run(kind, subject, new Date().toISOString());
    } finally {
        db.close();
    }
}
