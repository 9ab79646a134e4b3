// Mastra's client for MCP, used as its documentation says.

import { MCPClient } from '@mastra/mcp';
import { run, textOf } from './jobs.mjs';

await run(async (job) => {
    const client = new MCPClient({
        id: `job-${job.id}`,
        servers: {
            here: {
                url: new URL(job.url),
                inputRequests: async ({ params }) => ({
                    action: 'accept',
                    content: await job.answer(params.message, params.requestedSchema.properties),
                }),
            },
        },
    });
    const tools = await client.listTools();
    if (!(`here_${job.tool}` in tools)) throw new Error('the tools were not listed');
    job.begins();
    try {
        const result = await tools[`here_${job.tool}`].execute(job.args, {});
        job.returned(result.content ? textOf(result.content) : JSON.stringify(result), result.isError);
    } catch (error) {
        job.raised(error);
    }
    await job.usable(() => client.listTools());
    await client.disconnect();
});
