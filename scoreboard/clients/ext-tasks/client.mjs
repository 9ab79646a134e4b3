// The official client of Tasks for the TypeScript SDK, used as its documentation says.

import { Client, ClientCredentialsProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import {
    createApplicationInputHandler,
    createTaskSessionFromClient,
    DispatchError,
    resultFromTaskOutcome,
} from '@modelcontextprotocol/ext-tasks/client';
import { run } from './jobs.mjs';

const clientInfo = { name: 'scorecard', version: '1' };
const clientCapabilities = { elicitation: { form: {} } };

/** The time that the SDK's client waits for a response, by default. */
const LIMIT_MS = 60_000;

/** The host's own requests: to a server of tasks, the SDK's client cannot send what is about a task. */
function dispatchOver(transport) {
    const waiting = new Map();
    const others = transport.onmessage;
    transport.onmessage = (message, extra) => {
        const settle = 'method' in message ? undefined : waiting.get(message.id);
        if (settle) settle(message);
        else others(message, extra);
    };
    return async (request, { signal } = {}) => {
        const id = `host-${crypto.randomUUID()}`;
        let limit;
        const response = new Promise((resolve, reject) => {
            const fail = (why) => reject(new DispatchError(why?.message ?? why, false, { cause: why }));
            waiting.set(id, resolve);
            limit = setTimeout(fail, LIMIT_MS, 'Request timed out');
            const onRequestStreamEnd = () => fail('The stream has ended');
            transport.send({ jsonrpc: '2.0', id, ...request }, { requestSignal: signal, onRequestStreamEnd }).catch(fail);
        });
        try {
            const { error, result } = await response;
            return error ? { kind: 'error', error } : { kind: 'result', result };
        } finally {
            clearTimeout(limit);
            waiting.delete(id);
        }
    };
}

function unasked() {
    throw new Error('this client has no such capability');
}

await run(async (job) => {
    const client = new Client(clientInfo, {
        capabilities: clientCapabilities,
        versionNegotiation: { mode: job.era === 'legacy' ? 'legacy' : 'auto' },
    });
    client.setRequestHandler('elicitation/create', job.elicited);
    const transport = job.command
        ? new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) })
        : new StreamableHTTPClientTransport(new URL(job.url), {
              authProvider: job.credentials && new ClientCredentialsProvider(job.credentials),
          });
    await client.connect(transport);
    const protocolVersion = client.getNegotiatedProtocolVersion();
    const session = createTaskSessionFromClient(client, {
        endpointId: 'here',
        onInputRequest: createApplicationInputHandler({ elicitation: job.elicited, sampling: unasked, roots: unasked }),
        ...(job.era === 'modern' && {
            rawDispatch: dispatchOver(transport),
            v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
        }),
    });
    await job.make(
        async () => {
            const execution = await session.callTool(job.tool, job.args);
            const { outcome } = await execution.settle();
            return resultFromTaskOutcome(outcome);
        },
        () => client.listTools(),
    );
    await session.close();
    await client.close();
});
