// The common part of the clients in JavaScript: jobs come in on standard input, what is seen goes out.
// Knows no client. See README.md for the lines.

import { createInterface } from 'node:readline';

/** Whether the client's own retries are to be switched on. */
export const RETRYING = process.argv.includes('retrying');

const seconds = () => performance.now() / 1000;

/** One call to be made (url, command, era, tool, args), and what the application sees of it. */
export class Job {
    constructor(line) {
        const { arguments: args, ...told } = JSON.parse(line);
        Object.assign(this, { ...told, args });
        this.began = seconds();
    }

    /** The credentials by which the client gets a token; undefined if the server needs none. */
    get credentials() {
        return this.issuer
            ? { clientId: 'the-client', clientSecret: 'a secret', expectedIssuer: this.issuer }
            : undefined;
    }

    say(said) {
        process.stdout.write(JSON.stringify({ job: this.id, ...said }) + '\n');
    }

    /** Ask the user; what goes into the form. */
    async answer(message, properties) {
        this.say({ asked: message });
        await new Promise((resolve) => setTimeout(resolve, this.think_seconds * 1000));
        this.think_seconds = 0;
        const wrong = this.wrong;
        this.wrong = {};
        return Object.fromEntries(Object.keys(properties).map((name) => [name, wrong[name] ?? this.answers[name]]));
    }

    /** What an elicitation handler returns: the form, filled in. */
    elicited = async ({ params }) => ({
        action: 'accept',
        content: await this.answer(params.message, params.requestedSchema.properties),
    });

    /** Make the call with a connected client, then see whether the client still lists the tools. */
    async make(call, listTools) {
        this.began = seconds();
        try {
            const result = await call();
            const texts = (result.content ?? []).filter(({ type }) => type === 'text').map(({ text }) => text);
            const said = { text: texts.join(''), is_error: Boolean(result.isError) };
            this.say({ returned: said, seconds: seconds() - this.began });
        } catch (error) {
            this.raised(error);
        }
        try {
            await listTools();
            this.say({ usable: true });
        } catch {
            this.say({ usable: false });
        }
    }

    /** The call raised; or, with `where` "client", what is around it did. */
    raised(error, where = 'call') {
        const about = {
            class: error?.name && error.name !== 'Error' ? error.name : (error?.constructor?.name ?? typeof error),
            code: error?.code ?? null,
            message: String(error?.message ?? error).slice(0, 500),
        };
        this.say({ raised: about, where, seconds: seconds() - this.began });
    }
}

/** Make the calls that are asked for, until standard input ends. */
export async function run(call) {
    const calls = [];
    const one = async (job) => {
        try {
            await call(job);
        } catch (error) {
            job.raised(error, 'client');
        } finally {
            job.say({ over: true });
        }
    };
    process.stdout.write('{"ready": true}\n');
    for await (const line of createInterface({ input: process.stdin })) calls.push(one(new Job(line)));
    await Promise.all(calls);
    process.exit(0);
}
