// The AI SDK's client for MCP, used as its documentation says.

import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { run, textOf } from './jobs.mjs';

await run(async (job) => {
    const client = await createMCPClient({
        transport: { type: 'http', url: job.url },
        protocolVersionDiscovery: job.era !== 'legacy',
        capabilities: { elicitation: {} },
    });
    client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => ({
        action: 'accept',
        content: await job.answer(params.message, params.requestedSchema.properties),
    }));
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
