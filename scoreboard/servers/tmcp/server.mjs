// The weather tool on tmcp, as its README has tools, elicitation and the HTTP transport.

import { createHmac, timingSafeEqual } from 'node:crypto';
import * as http from 'node:http';
import { createRequestListener } from '@remix-run/node-fetch-server';
import { ValibotJsonSchemaAdapter } from '@tmcp/adapter-valibot';
import { HttpTransport } from '@tmcp/transport-http';
import { McpServer } from 'tmcp';
import { tool } from 'tmcp/utils';
import * as v from 'valibot';
import { audit, bill, places, report, trimmed } from './weather.mjs';

// A state that shows when it was changed.
const sign = (text) => createHmac('sha256', process.env.STATE_SECRET).update(text).digest('base64url');
const signed = {
    encode(state) {
        const text = JSON.stringify(state);
        return `${sign(text)}.${text}`;
    },
    decode(encoded) {
        const [tag, text] = [encoded.slice(0, 43), encoded.slice(44)];
        const [given, due] = [Buffer.from(tag), Buffer.from(sign(text))];
        if (given.length !== due.length || !timingSafeEqual(given, due)) throw new Error('changed');
        return JSON.parse(text);
    },
};

const hardened = process.argv[2] === 'hardened';

const server = new McpServer(
    { name: 'weather', version: '1.0.0', description: "Today's weather" },
    {
        adapter: new ValibotJsonSchemaAdapter(),
        capabilities: { tools: {} },
        ...(hardened ? { requestStateCodec: signed } : {}),
    },
);

// What the user chose; or how they said no.
async function ask(key, message, choices) {
    const options = hardened ? { key } : {};
    const answer = await server.elicitation(message, v.object({ [key]: v.picklist(choices) }), options);
    if (answer.action === 'decline') return { no: tool.text(`No lookup: ${key} was declined.`) };
    if (answer.action === 'cancel') return { no: tool.text(`No lookup: ${key} was cancelled.`) };
    return { chosen: answer.content[key] };
}

function canAsk() {
    const elicitation = server.ctx.sessionInfo?.clientCapabilities?.elicitation;
    return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}

server.tool(
    {
        name: 'weather',
        description: "Today's weather",
        schema: v.strictObject({ location: v.pipe(v.string(), v.minLength(1), v.maxLength(100)) }),
        replayable: true,
    },
    async ({ location }) => {
        audit(location);

        const names = places(location);
        if (names.length === 0) return tool.error(`There is no ${location}.`);
        let place = names[0];
        if (names.length > 1) {
            if (!canAsk()) return tool.error(`Name the place: ${names.join('; ')}.`);
            const { chosen, no } = await ask('place', `Which ${trimmed(location)}?`, names);
            if (no) return no;
            place = chosen;
        }

        let units;
        if (canAsk()) {
            const { chosen, no } = await ask('units', `Which units for ${place}?`, ['metric', 'imperial']);
            if (no) return no;
            units = chosen;
        }

        bill(place);
        return tool.text(report(place, units));
    },
);

const transport = new HttpTransport(server, { path: '/mcp' });
http.createServer(
    createRequestListener(async (request) => {
        const response = await transport.respond(request);
        return response ?? new Response(null, { status: 404 });
    }),
).listen(Number(process.env.PORT), '127.0.0.1');
