// The weather tool as a Mastra workflow with a step for each question and each effect.

import { Mastra } from '@mastra/core';
import { createStep, createWorkflow } from '@mastra/core/workflows';
import { LibSQLStore } from '@mastra/libsql';
import { z } from 'zod';

import * as tool from './tool.mjs';

const call = z.object({ location: z.string() });
const chosen = call.extend({ place: z.string() });
const complete = chosen.extend({ units: z.enum(['metric', 'imperial']) });

const log = createStep({
    id: 'log',
    inputSchema: call,
    outputSchema: call,
    execute: async ({ inputData }) => {
        tool.audit(inputData.location);
        return inputData;
    },
});

const askPlace = createStep({
    id: 'place',
    inputSchema: call,
    outputSchema: chosen,
    resumeSchema: z.object({ place: z.string() }),
    execute: async ({ inputData, resumeData, suspend }) => {
        if (!resumeData) return await suspend(tool.whichPlace(inputData.location));
        return { ...inputData, place: resumeData.place };
    },
});

const askConsent = createStep({
    id: 'consent',
    inputSchema: chosen,
    outputSchema: chosen,
    resumeSchema: z.object({ consent: z.enum(['yes']) }),
    execute: async ({ inputData, resumeData, suspend }) => {
        if (!resumeData) return await suspend(tool.mayBill(inputData.place));
        return inputData;
    },
});

const askUnits = createStep({
    id: 'units',
    inputSchema: chosen,
    outputSchema: complete,
    resumeSchema: z.object({ units: z.enum(['metric', 'imperial']) }),
    execute: async ({ inputData, resumeData, suspend }) => {
        if (!resumeData) return await suspend(tool.whichUnits(inputData.place));
        return { ...inputData, units: resumeData.units };
    },
});

const charge = createStep({
    id: 'charge',
    inputSchema: complete,
    outputSchema: z.string(),
    execute: async ({ inputData: { place, units } }) => {
        await tool.bill(place);
        return tool.report(place, units);
    },
});

let chain = createWorkflow({ id: 'weather', inputSchema: call, outputSchema: z.string() }).then(log).then(askPlace);
if (tool.consent) chain = chain.then(askConsent);
const weather = chain.then(askUnits).then(charge).commit();

const storage = new LibSQLStore({ id: 'store', url: `file:${tool.store}/mastra.db` });
const workflow = new Mastra({ workflows: { weather }, storage, logger: false }).getWorkflow('weather');

function outcome(result, run) {
    if (result.status === 'success') return tool.done(result.result);
    if (result.status !== 'suspended') throw result.error ?? new Error(result.status);
    const step = result.suspended[0].at(-1);
    return tool.asked(result.steps[step].suspendPayload, { run, step });
}

async function start({ call, location }) {
    const run = await workflow.createRun({ runId: call });
    return outcome(await run.start({ inputData: { location } }), call);
}

async function resume({ pause, name, value }) {
    const run = await workflow.createRun({ runId: pause.run });
    return outcome(await run.resume({ step: pause.step, resumeData: { [name]: value } }), pause.run);
}

/** Returns the run from the store. */
async function read({ call }) {
    const run = await workflow.getWorkflowRunById(call);
    if (run.status === 'success') return tool.done(run.result);
    if (run.status !== 'suspended') return tool.parked(run.status);
    const [step] = Object.entries(run.steps).find(([, each]) => each.status === 'suspended');
    return tool.asked(run.steps[step].suspendPayload, { run: call, step });
}

await tool.deliver(start, resume, read);
