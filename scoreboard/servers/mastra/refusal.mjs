// What a server on mastra says of an argument that is too long, and beyond Unicode's first plane.

const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'client', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
};
const params = { name: 'weather', arguments: { location: '🌦'.repeat(101) }, _meta: meta };
const response = await fetch(process.env.URL, {
    method: 'POST',
    headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'weather',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
});
const body = await response.text();
const message = JSON.parse(body.slice(body.indexOf('{')));
const text = message.result?.content?.[0]?.text ?? message.error?.message ?? '';
console.log("1. the client calls weather for '🌦🌦...', 101 times");
console.log(`   gets a message that ends in ${JSON.stringify(text.slice(-24))}`);
console.log(`   the message is ${text.isWellFormed() ? '' : 'not '}well-formed Unicode`);
