// Mastra's client for MCP, used as its documentation says.

import { MCPClient } from '@mastra/mcp';
import { ClientCredentialsProvider } from '@modelcontextprotocol/client';
import { run } from './jobs.mjs';

await run(async (job) => {
    const client = new MCPClient({
        id: `job-${job.id}`,
        servers: {
            here: {
                url: new URL(job.url),
                inputRequests: job.elicited,
                ...(job.credentials && { authProvider: new ClientCredentialsProvider(job.credentials) }),
            },
        },
    });
    const tools = await client.listTools();
    if (!(`here_${job.tool}` in tools)) throw new Error('the tools were not listed');
    const call = async () => {
        const result = await tools[`here_${job.tool}`].execute(job.args, {});
        return result.content ? result : { ...result, content: [{ type: 'text', text: JSON.stringify(result) }] };
    };
    await job.make(call, () => client.listTools());
    await client.disconnect();
});
