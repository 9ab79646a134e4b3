// The AI SDK's client for MCP, used as its documentation says.

import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { RETRYING, run } from './jobs.mjs';

await run(async (job) => {
    const client = await createMCPClient({
        transport: { type: 'http', url: job.url },
        maxRetries: RETRYING ? 2 : 0,
        protocolVersionDiscovery: job.era !== 'legacy',
        capabilities: { elicitation: {} },
    });
    client.onElicitationRequest(ElicitationRequestSchema, job.elicited);
    await job.make(
        () => client.callTool({ name: job.tool, arguments: job.args }),
        () => client.listTools(),
    );
    await client.close();
});
