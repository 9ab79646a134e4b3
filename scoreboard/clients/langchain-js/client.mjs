// LangChain's adapters for MCP in JavaScript, used as documented.

import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { run } from './jobs.mjs';

/** The content of a message: a text, blocks, or the JSON of one block that carries `_meta`. */
const blocks = (content) => {
    if (typeof content !== 'string') return content;
    return [content.startsWith('{"type":"text"') ? JSON.parse(content) : { type: 'text', text: content }];
};

await run(async (job) => {
    const authProvider = job.credentials && new ClientCredentialsProvider(job.credentials);
    const client = new MultiServerMCPClient({
        mcpServers: { here: { transport: 'http', url: job.url, ...(authProvider && { authProvider }) } },
    });
    const tools = await client.getTools();
    const tool = tools.find(({ name }) => name === job.tool);
    const call = async () => {
        const message = await tool.invoke({ type: 'tool_call', id: '1', name: job.tool, args: job.args });
        return { content: blocks(message.content), isError: message.status === 'error' };
    };
    await job.make(call, () => client.getTools());
    await client.close();
});
