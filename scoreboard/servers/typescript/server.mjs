// The weather tool on the TypeScript SDK, as its page on input_required has it.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { localhostHostValidation, localhostOriginValidation, NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, createRequestStateCodec, inputRequired, inputResponse, McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import * as z from 'zod';
import { audit, bill, places, report, trimmed } from './weather.mjs';

const codec =
    process.argv[2] === 'hardened'
        ? createRequestStateCodec({
              key: process.env.STATE_SECRET,
              ttlSeconds: 600,
              bind: (ctx) => `${ctx.mcpReq.method}\0${ctx.http?.authInfo?.clientId ?? ''}`,
          })
        : undefined;

const mint = (payload, ctx) => (codec ? codec.mint(payload, ctx) : JSON.stringify(payload));
const text = (words, isError = false) => ({ content: [{ type: 'text', text: words }], isError });
const form = (key, choices) => z.object({ [key]: z.enum(choices) });

function ask(key, message, choices, requestState) {
    const question = inputRequired.elicit({ message, requestedSchema: form(key, choices) });
    return inputRequired({ inputRequests: { [key]: question }, requestState });
}

// What an earlier round settled, of these places. Without a codec the state is what the client sent.
function placeIn(state, names) {
    if (state === undefined) return undefined;
    let place;
    try {
        ({ place } = codec ? state : JSON.parse(state));
    } catch {}
    if (!names.includes(place)) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'this state names no place');
    return place;
}

// The choice; or a result, where there is none.
function answered(ctx, key, choices) {
    const view = inputResponse(ctx.mcpReq.inputResponses, key);
    if (view.kind === 'missing') return {};
    if (view.kind === 'elicit' && view.action !== 'accept') {
        return { result: text(`No lookup: ${key} was ${view.action === 'decline' ? 'declined' : 'cancelled'}.`) };
    }
    const chosen = view.kind === 'elicit' ? form(key, choices).safeParse(view.content) : undefined;
    return chosen?.success ? { value: chosen.data[key] } : { result: text(`${key}: not one of the choices`, true) };
}

function buildServer() {
    const server = new McpServer(
        { name: 'weather', version: '1.0.0' },
        codec ? { requestState: { verify: codec.verify } } : {},
    );
    server.registerTool(
        'weather',
        { description: "Today's weather", inputSchema: z.strictObject({ location: z.string().min(1).max(100) }) },
        async ({ location }, ctx) => {
            audit(location);

            const names = places(location);
            if (names.length === 0) return text(`There is no ${location}.`, true);
            const settled = placeIn(ctx.mcpReq.requestState(), names);
            let place = names.length === 1 ? names[0] : settled;
            if (place === undefined) {
                const { value, result } = answered(ctx, 'place', names);
                if (result) return result;
                if (!value) return ask('place', `Which ${trimmed(location)}?`, names);
                place = value;
            }

            const { value, result } = answered(ctx, 'units', ['metric', 'imperial']);
            if (result) return result;
            if (!value) {
                return ask('units', `Which units for ${place}?`, ['metric', 'imperial'], await mint({ place }, ctx));
            }

            bill(place);
            return text(report(place, value));
        },
    );
    return server;
}

// Sessions of old clients, as its page on sessions has them: one transport and one server each.
const sessions = new Map();

async function inSession(req, res) {
    const known = req.headers['mcp-session-id'];
    if (known !== undefined && !sessions.has(known)) {
        const error = { code: -32001, message: 'Session not found' };
        res.writeHead(404).end(JSON.stringify({ jsonrpc: '2.0', error, id: null }));
        return;
    }
    let transport = sessions.get(known);
    if (transport === undefined) {
        transport = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: () => randomUUID(),
            onsessioninitialized: (id) => {
                sessions.set(id, transport);
            },
        });
        transport.onclose = () => sessions.delete(transport.sessionId);
        await buildServer().connect(transport);
    }
    await transport.handleRequest(req, res);
}

const handler = process.argv[2] === 'sessions' ? inSession : toNodeHandler(createMcpHandler(buildServer));
const validateHost = localhostHostValidation();
const validateOrigin = localhostOriginValidation();
createServer((req, res) => {
    if (!validateHost(req, res) || !validateOrigin(req, res)) return;
    void handler(req, res);
}).listen(Number(process.env.PORT), '127.0.0.1');
