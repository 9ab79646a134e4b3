// What the programs in JavaScript share: the tool's questions and effects, and how a program is called.
//
// A program is started for each delivery. It reads one JSON line and writes one (README.md says which).
// Places, texts and the ledger are in weather.mjs. Knows no framework.

import { createInterface } from 'node:readline';

import * as weather from './weather.mjs';

export { places } from './weather.mjs';

/** Where a framework keeps what it has to remember between two deliveries. */
export const store = process.env.MRTR_STORE;

/** Whether this is the next version of the tool, which asks for consent before it asks for the units. */
export const consent = process.env.MRTR_VERSION === 'inserted';

// --- questions ---------------------------------------------------------------------------------

export const whichPlace = (location) => ({
    key: 'place',
    message: `Which ${location}?`,
    choices: weather.places(location),
});

export const whichUnits = (place) => ({
    key: 'units',
    message: `Which units for ${place}?`,
    choices: ['metric', 'imperial'],
});

export const mayBill = (place) => ({
    key: 'consent',
    message: `The report for ${place} is billed. Go on?`,
    choices: ['yes'],
});

/** The result. A place that no user can have chosen has one, too: each refusal is the framework's. */
export const report = (place, units) =>
    place in weather.today ? weather.report(place, units) : `${place}: not known.`;

// --- effects -----------------------------------------------------------------------------------

export const audit = (location) => effect('audit', location);

export async function bill(place) {
    // So that two deliveries at once meet.
    await new Promise((done) => setTimeout(done, 1000 * Number(process.env.MRTR_SLOW ?? 0)));
    effect('bill', place);
}

function effect(kind, subject) {
    weather[kind](subject);
    if (process.env.MRTR_CRASH === kind) process.kill(process.pid, 'SIGKILL');
}

// --- one delivery ------------------------------------------------------------------------------

/** The tool pauses: what the person is asked, and what the next delivery brings along. */
export const asked = (question, pause) => ({ asked: question, pause });

/** The tool has ended. */
export const done = (text) => ({ done: text });

/**
 * Make one delivery: `start(call, location, user)` or `resume(pause, name, value, user)`;
 * `read(call, pause, user)` looks up what has become of a call.
 */
export async function deliver(start, resume, read) {
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = process.stderr.write.bind(process.stderr); // what a framework prints is no answer
    const lines = createInterface({ input: process.stdin });
    const [line] = await new Promise((read) => lines.once('line', (text) => read([JSON.parse(text)])));
    lines.close();
    let reply;
    try {
        if ('read' in line) reply = read ? await read(line.read) : { unread: true };
        else reply = 'call' in line ? await start(line) : await resume(line);
    } catch (error) {
        console.error(error);
        const text = `${error.name}: ${error.message}`.split('\n')[0].slice(0, 300);
        reply = { error: text, by: isOurs(error) ? 'us' : 'library' };
    }
    write(`${JSON.stringify(reply)}\n`, () => process.exit(0));
}

/** Whether a line of these programs raised it, and not one of a library. */
function isOurs(error) {
    const raised = String(error.stack).split('\n').find((line) => line.trim().startsWith('at ')) ?? '';
    return raised.includes('file:') && !raised.includes('node_modules');
}
