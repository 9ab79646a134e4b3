// The TypeScript SDK's client, version 2, used as its documentation says.

import { Client, ClientCredentialsProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { run } from './jobs.mjs';

await run(async (job) => {
    const client = new Client(
        { name: 'scorecard', version: '1' },
        {
            capabilities: { elicitation: { form: {} } },
            versionNegotiation: { mode: job.era === 'legacy' ? 'legacy' : 'auto' },
        },
    );
    client.setRequestHandler('elicitation/create', job.elicited);
    await client.connect(
        job.command
            ? new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) })
            : new StreamableHTTPClientTransport(new URL(job.url), {
                  authProvider: job.credentials && new ClientCredentialsProvider(job.credentials),
              }),
    );
    await job.make(
        () => client.callTool({ name: job.tool, arguments: job.args }),
        () => client.listTools(),
    );
    await client.close();
});
