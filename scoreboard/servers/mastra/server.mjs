// The weather tool on mastra, as its guide to @mastra/mcp 2.0 has suspend and resume.

import http from 'node:http';
import { createTool } from '@mastra/core/tools';
import { MCPServer } from '@mastra/mcp';
import { z } from 'zod';
import { audit, bill, places, report, trimmed } from './weather.mjs';

const form = (key, choices) => ({
    type: 'object',
    properties: { [key]: { type: 'string', enum: choices } },
    required: [key],
});

// The guide has one form for each tool; these two depend on what was answered.
const ask = (context, payload, key, choices) =>
    context.suspend(payload, { resumeSchema: JSON.stringify(form(key, choices)) });

function chosen(context, key, choices) {
    const value = context.resumeData[key];
    if (!choices.includes(value)) throw new Error(`${key}: not one of the choices`);
    return value;
}

const weather = createTool({
    id: 'weather',
    description: "Today's weather",
    inputSchema: z.strictObject({ location: z.string().min(1).max(100) }),
    execute: async ({ location }, context) => {
        audit(location);

        const names = places(location);
        if (names.length === 0) throw new Error(`There is no ${location}.`);
        const { phase } = context.suspendPayload ?? {};
        let place = phase === 'units' ? context.suspendPayload.place : names.length === 1 ? names[0] : undefined;
        if (phase === 'place') place = chosen(context, 'place', names);
        if (place === undefined) {
            await ask(context, { phase: 'place', message: `Which ${trimmed(location)}?` }, 'place', names);
            return;
        }

        if (phase !== 'units') {
            const message = `Which units for ${place}?`;
            await ask(context, { phase: 'units', place, message }, 'units', ['metric', 'imperial']);
            return;
        }
        const units = chosen(context, 'units', ['metric', 'imperial']);

        bill(place);
        return report(place, units);
    },
});

const server = new MCPServer({
    name: 'weather',
    version: '1.0.0',
    tools: { weather },
    ...(process.argv[2] === 'hardened' ? { requestState: { key: process.env.STATE_SECRET, ttlSeconds: 600 } } : {}),
});

http.createServer(async (req, res) => {
    await server.startHTTP({ url: new URL(req.url || '', 'http://127.0.0.1'), httpPath: '/mcp', req, res });
}).listen(Number(process.env.PORT), '127.0.0.1');
