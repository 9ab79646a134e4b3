// MCPorter's runtime, used as its documentation says.

import { createRuntime } from 'mcporter';
import { run } from './jobs.mjs';

await run(async (job) => {
    const command = { kind: 'http', url: new URL(job.url) };
    const runtime = await createRuntime({ servers: [{ name: 'here', command }] });
    await job.make(
        () => runtime.callTool('here', job.tool, { args: job.args }),
        () => runtime.listTools('here'),
    );
    await runtime.close();
});
