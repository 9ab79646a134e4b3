// The TypeScript SDK's client, version 1, used as its documentation says.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { run } from './jobs.mjs';

await run(async (job) => {
    const client = new Client({ name: 'scorecard', version: '1' }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, job.elicited);
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
