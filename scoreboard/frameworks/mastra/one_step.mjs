// The weather tool as one Mastra step that suspends for each question, and keeps the answers in what it suspends with.

import { Mastra } from '@mastra/core';
import { createStep, createWorkflow } from '@mastra/core/workflows';
import { LibSQLStore } from '@mastra/libsql';
import { z } from 'zod';

import * as tool from './tool.mjs';

const answers = z.object({
    place: z.string().optional(),
    consent: z.enum(['yes']).optional(),
    units: z.enum(['metric', 'imperial']).optional(),
});

const lookUp = createStep({
    id: 'lookUp',
    inputSchema: z.object({ location: z.string() }),
    outputSchema: z.string(),
    resumeSchema: answers,
    suspendSchema: z.object({ question: z.any(), said: answers }),
    execute: async ({ inputData: { location }, resumeData, suspendData, suspend }) => {
        tool.audit(location);
        const said = { ...suspendData?.said, ...resumeData };
        if (!said.place) return await suspend({ question: tool.whichPlace(location), said });
        if (tool.consent && !said.consent) return await suspend({ question: tool.mayBill(said.place), said });
        if (!said.units) return await suspend({ question: tool.whichUnits(said.place), said });
        await tool.bill(said.place);
        return tool.report(said.place, said.units);
    },
});

const weather = createWorkflow({
    id: 'weather',
    inputSchema: z.object({ location: z.string() }),
    outputSchema: z.string(),
})
    .then(lookUp)
    .commit();

const storage = new LibSQLStore({ id: 'store', url: `file:${tool.store}/mastra.db` });
const workflow = new Mastra({ workflows: { weather }, storage, logger: false }).getWorkflow('weather');

function outcome(result, run) {
    if (result.status === 'success') return tool.done(result.result);
    if (result.status !== 'suspended') throw result.error ?? new Error(result.status);
    return tool.asked(result.steps.lookUp.suspendPayload.question, { run });
}

async function start({ call, location }) {
    const run = await workflow.createRun({ runId: call });
    return outcome(await run.start({ inputData: { location } }), call);
}

async function resume({ pause, name, value }) {
    const run = await workflow.createRun({ runId: pause.run });
    return outcome(await run.resume({ step: 'lookUp', resumeData: { [name]: value } }), pause.run);
}

await tool.deliver(start, resume);
