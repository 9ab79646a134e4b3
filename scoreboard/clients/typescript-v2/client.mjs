// The TypeScript SDK's client, version 2, used as its documentation says.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { run, textOf } from './jobs.mjs';

await run(async (job) => {
    const client = new Client(
        { name: 'scorecard', version: '1' },
        {
            capabilities: { elicitation: { form: {} } },
            versionNegotiation: { mode: job.era === 'legacy' ? 'legacy' : 'auto' },
        },
    );
    client.setRequestHandler('elicitation/create', async ({ params }) => ({
        action: 'accept',
        content: await job.answer(params.message, params.requestedSchema.properties),
    }));
    await client.connect(
        job.command
            ? new StdioClientTransport({ command: job.command[0], args: job.command.slice(1) })
            : new StreamableHTTPClientTransport(new URL(job.url)),
    );
    job.begins();
    try {
        const result = await client.callTool({ name: job.tool, arguments: job.args });
        job.returned(textOf(result.content), result.isError);
    } catch (error) {
        job.raised(error);
    }
    await job.usable(() => client.listTools());
    await client.close();
});
