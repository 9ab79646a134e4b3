// The weather tool in the Vercel AI SDK: a person approves the place, and then the lookup.
//
// An approval is yes or no, so the scripted model proposes what this user wants; another answer denies it.

import { generateText, isStepCount, tool as define } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';

import * as tool from './tool.mjs';

const secret = process.argv[2] === 'secret' ? '0123456789abcdef0123456789abcdef' : undefined;
const [place, units] = ['Springfield, Missouri', 'imperial'];

const tools = {
    logLookup: define({
        inputSchema: z.object({ location: z.string() }),
        execute: async ({ location }) => {
            tool.audit(location);
            return 'logged';
        },
    }),
    choosePlace: define({ inputSchema: z.object({ place: z.string() }), execute: async ({ place }) => place }),
    consent: define({ inputSchema: z.object({ place: z.string() }), execute: async () => 'yes' }),
    lookUp: define({
        inputSchema: z.object({ place: z.string(), units: z.string() }),
        execute: async ({ place, units }) => {
            await tool.bill(place);
            return tool.report(place, units);
        },
    }),
};

/** Returns the model's next tool call, or the last tool's result as its text. */
async function scripted({ prompt }) {
    const parts = prompt.flatMap(({ content }) => (Array.isArray(content) ? content : []));
    const called = parts.filter(({ type }) => type === 'tool-call').map(({ toolName }) => toolName);
    const outputs = parts.filter(({ type }) => type === 'tool-result').map(({ output }) => output);
    const plan = { logLookup: { location: 'Springfield' }, choosePlace: { place } };
    if (tool.consent && !called.includes('lookUp')) plan.consent = { place };
    plan.lookUp = { place, units };
    const denied = outputs.some(({ type }) => type === 'execution-denied');
    const next = denied ? undefined : Object.keys(plan).find((name) => !called.includes(name));
    const text = denied ? 'No lookup was made.' : String(outputs.at(-1)?.value);
    const call = { type: 'tool-call', toolCallId: `call-${next}`, toolName: next, input: JSON.stringify(plan[next]) };
    return {
        content: [next ? call : { type: 'text', text }],
        finishReason: { unified: next ? 'tool-calls' : 'stop', raw: undefined },
        usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
        warnings: [],
    };
}

async function go(messages) {
    const result = await generateText({
        model: new MockLanguageModelV4({ doGenerate: scripted }),
        tools,
        toolApproval: { choosePlace: 'user-approval', consent: 'user-approval', lookUp: 'user-approval' },
        experimental_toolApprovalSecret: secret,
        stopWhen: isStepCount(9),
        messages,
    });
    const pending = result.content.find(({ type }) => type === 'tool-approval-request');
    if (!pending) return tool.done(result.text);
    const asks = { choosePlace: tool.whichPlace('Springfield'), consent: tool.mayBill(place) };
    const question = asks[pending.toolCall.toolName] ?? tool.whichUnits(place);
    const proposed = [...Object.values(pending.toolCall.input), 'yes'];
    return tool.asked(question, {
        approvalId: pending.approvalId,
        proposed,
        messages: [...messages, ...result.responseMessages],
    });
}

const start = ({ location }) => go([{ role: 'user', content: location }]);

function resume({ pause, value }) {
    const approved = pause.proposed.includes(value);
    const answer = { type: 'tool-approval-response', approvalId: pause.approvalId, approved };
    return go([...pause.messages, { role: 'tool', content: [answer] }]);
}

await tool.deliver(start, resume);
