/**
 * SEP-2322: MRTR client conduct
 *
 * The scenario of mrtr-client.ts checks what a retry carries. This one checks what a client does with a
 * question: whether it has declared that it can be asked, what it answers, that it leaves a URL alone until
 * its user consents, and that it asks again for a response that was lost.
 */

import type http from 'http';
import type { ConformanceCheck, SpecReference } from '../../types';
import { DRAFT_PROTOCOL_VERSION } from '../../types';
import { withRequiredDraftResultFields } from '../../mock-server';
import { untestableCheck } from '../untestable';
import { BaseHttpScenario } from './http-base';

type Json = Record<string, any>;

const SPEC = `https://modelcontextprotocol.io/specification/${DRAFT_PROTOCOL_VERSION}/`;
const MRTR_SPEC_REFERENCES = [
  { id: 'SEP-2322-MRTR', url: `${SPEC}basic/patterns/mrtr` }
];
const ELICITATION_SPEC_REFERENCES = [
  { id: 'Elicitation', url: `${SPEC}client/elicitation` }
];
const LOST_STREAM_SPEC_REFERENCES = [
  { id: 'Changelog', url: `${SPEC}changelog#major-changes` }
];

const DEFAULT_MODE = 'test_client_default_mode';
const FORM = 'test_client_form';
const URL_MODE = 'test_client_url';
const TWO_QUESTIONS = 'test_client_two_questions';
const TWO_ROUNDS = 'test_client_two_rounds';
const STATE_ONLY = 'test_client_state_only';
const LOST = 'test_client_lost_response';
const CONSENT = '/consent';

const NAME_SCHEMA = {
  type: 'object',
  properties: { name: { type: 'string' } },
  required: ['name']
};
const FORM_SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    count: { type: 'integer' },
    sure: { type: 'boolean' },
    plan: { type: 'string', enum: ['basic', 'pro'] }
  },
  required: ['name', 'count', 'sure', 'plan']
};

function form(schema: Json, mode: Json = { mode: 'form' }): Json {
  return {
    method: 'elicitation/create',
    params: { ...mode, message: 'Please answer', requestedSchema: schema }
  };
}

/** What is wrong with a value of FORM_SCHEMA. */
function misfits(content: Json | undefined): string[] {
  const fits: Record<string, (value: unknown) => boolean> = {
    name: (value) => typeof value === 'string',
    count: (value) => Number.isInteger(value),
    sure: (value) => typeof value === 'boolean',
    plan: (value) => value === 'basic' || value === 'pro'
  };
  return Object.entries(fits)
    .filter(([name, fit]) => !fit(content?.[name]))
    .map(([name]) => `${name}: ${JSON.stringify(content?.[name])}`);
}

export class MRTRClientConductScenario extends BaseHttpScenario {
  name = 'sep-2322-client-conduct';
  description = `Test what a client makes of the questions of a server, and of a response that is lost (SEP-2322).

**Client Implementation Requirements:**

List the tools and call each, with \`"item": "one"\` where a tool requires it. Declare the capability \`elicitation\`.
Accept every form, with values that fit its schema, and decline every question in URL mode, so that nothing may open
its URL.`;

  /** Every tools/call, in order. */
  private calls: Json[] = [];
  /** The methods of HTTP by which the URL of a question was requested. */
  private opened: string[] = [];

  getChecks(): ConformanceCheck[] {
    const checks: ConformanceCheck[] = [];
    const retriesOf = (name: string) =>
      this.calls.filter(
        ({ params }) =>
          params.name === name &&
          (params.inputResponses !== undefined ||
            params.requestState !== undefined)
      );
    const answersOf = (name: string): Json[] =>
      retriesOf(name).flatMap(({ params }) =>
        Object.values((params.inputResponses ?? {}) as Json)
      );
    const accepted = (name: string) =>
      answersOf(name).some((answer) => answer?.action === 'accept');
    const declaredBy = ({ params }: Json): Json | undefined =>
      params?._meta?.['io.modelcontextprotocol/clientCapabilities']
        ?.elicitation;

    const check = (
      id: string,
      name: string,
      description: string,
      severity: 'FAILURE' | 'WARNING',
      specReferences: SpecReference[],
      errors: string[],
      prerequisite?: { met: boolean; reason: string }
    ) => {
      if (prerequisite && !prerequisite.met) {
        checks.push(
          untestableCheck(
            id,
            name,
            description,
            prerequisite.reason,
            specReferences,
            severity
          )
        );
        return;
      }
      checks.push({
        id,
        name,
        description,
        status: errors.length === 0 ? 'SUCCESS' : severity,
        timestamp: new Date().toISOString(),
        errorMessage: errors.length > 0 ? errors.join('; ') : undefined,
        specReferences
      });
    };
    const retried = (name: string) => ({
      met: retriesOf(name).length > 0,
      reason: `the client did not call and retry ${name}`
    });

    const elicited = this.calls.filter(({ params }) =>
      [DEFAULT_MODE, FORM, TWO_QUESTIONS, TWO_ROUNDS].includes(params.name)
    );
    const undeclared = elicited.filter((each) => !declaredBy(each));
    const supports = [DEFAULT_MODE, FORM].some(accepted);
    check(
      'elicitation-client-declared',
      'ElicitationClientDeclared',
      'Client that answers elicitation requests has declared the elicitation capability on the requests that they answer',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      supports && undeclared.length > 0
        ? [`${undeclared.length} of ${elicited.length} calls declare none`]
        : [],
      {
        met: supports || undeclared.length < elicited.length,
        reason: 'the client neither declares elicitation nor answers'
      }
    );

    check(
      'elicitation-client-supports-a-mode',
      'ElicitationClientSupportsAMode',
      'Client that declares the elicitation capability supports at least one mode',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      supports ||
        answersOf(URL_MODE).some((answer) => answer?.action === 'decline')
        ? []
        : ['No form was accepted, and no question in URL mode was declined'],
      {
        met: supports || undeclared.length < elicited.length,
        reason: 'the client does not declare elicitation'
      }
    );

    check(
      'elicitation-client-default-mode',
      'ElicitationClientDefaultMode',
      'Client treats a question without a mode as a form',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      answersOf(DEFAULT_MODE)
        .filter((answer) => typeof answer?.content?.name !== 'string')
        .map(
          (answer) =>
            `Expected the content of a form, got ${JSON.stringify(answer)}`
        ),
      retried(DEFAULT_MODE)
    );

    check(
      'elicitation-client-content-valid',
      'ElicitationClientContentValid',
      'Client answers a form with content that conforms to the requested schema',
      'WARNING',
      ELICITATION_SPEC_REFERENCES,
      answersOf(FORM)
        .filter((answer) => answer?.action === 'accept')
        .flatMap((answer) => misfits(answer.content)),
      { met: accepted(FORM), reason: `the client did not accept ${FORM}` }
    );

    check(
      'elicitation-client-no-prefetch',
      'ElicitationClientNoPrefetch',
      'Client does not fetch the URL of a question, nor its metadata, without consent',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      this.opened.map(
        (method) => `${method} of a URL that the user did not consent to`
      ),
      {
        met: retriesOf(URL_MODE).length > 0 && !accepted(URL_MODE),
        reason: `the client did not decline ${URL_MODE}`
      }
    );

    check(
      'sep-2322-client-all-inputs-constructed',
      'MRTRClientAllInputsConstructed',
      'Client constructs every requested input before it retries',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      retriesOf(TWO_QUESTIONS).flatMap(({ params }) =>
        ['first', 'second']
          .filter((key) => !params.inputResponses?.[key])
          .map((key) => `A retry lacks the input "${key}"`)
      ),
      retried(TWO_QUESTIONS)
    );

    const states = retriesOf(TWO_ROUNDS).map(
      ({ params }) => params.requestState
    );
    check(
      'sep-2322-client-latest-state-echoed',
      'MRTRClientLatestStateEchoed',
      'Client echoes the requestState of the response that it answers, in each round',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      ['state of round 1', 'state of round 2']
        .filter((state, round) => states[round] !== state)
        .map(
          (state, round) =>
            `Expected "${state}" in retry ${round + 1} of ${states.length}`
        ),
      retried(TWO_ROUNDS)
    );

    check(
      'sep-2322-client-state-only-echoed',
      'MRTRClientStateOnlyEchoed',
      'Client echoes a requestState that comes without inputRequests',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      retriesOf(STATE_ONLY)
        .filter(({ params }) => params.requestState !== 'state alone')
        .map(({ params }) => `Got ${JSON.stringify(params.requestState)}`),
      retried(STATE_ONLY)
    );

    const retries = this.calls.filter(
      ({ params }) => params.inputResponses !== undefined
    );
    check(
      'sep-2575-client-populates-meta-on-retry',
      'ClientPopulatesMetaOnRetry',
      'Client includes the required _meta fields in each retry',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      retries
        .filter(({ params }) =>
          ['protocolVersion', 'clientCapabilities'].some(
            (field) =>
              params._meta?.[`io.modelcontextprotocol/${field}`] === undefined
          )
        )
        .map(({ params }) => `A retry of ${params.name} lacks _meta fields`),
      { met: retries.length > 0, reason: 'the client did not retry' }
    );

    const lost = this.calls.filter(({ params }) => params.name === LOST);
    const called = {
      met: lost.length > 0,
      reason: `the client did not call ${LOST}`
    };
    check(
      'sep-2575-client-reissues-lost-request',
      'ClientReissuesLostRequest',
      'Client re-issues a request whose response stream broke',
      'FAILURE',
      LOST_STREAM_SPEC_REFERENCES,
      lost.length > 1 &&
        lost.every(({ params }) => params.arguments?.item === 'one')
        ? []
        : [`${LOST} arrived ${lost.length} times with its argument`],
      called
    );

    const ids = lost.map(({ id }) => id);
    check(
      'sep-2575-client-reissues-with-new-id',
      'ClientReissuesWithNewId',
      'Client re-issues a lost request under a new request ID each time',
      'FAILURE',
      LOST_STREAM_SPEC_REFERENCES,
      new Set(ids).size === ids.length ? [] : [`The ids are ${ids.join(', ')}`],
      {
        met: lost.length > 1,
        reason: `the client did not re-issue ${LOST}`
      }
    );

    return checks;
  }

  protected handleRequest(
    req: http.IncomingMessage,
    res: http.ServerResponse
  ): void {
    if (req.url?.startsWith(CONSENT)) {
      this.opened.push(req.method ?? '');
      res.writeHead(200).end();
      return;
    }
    super.handleRequest(req, res);
  }

  protected handlePost(
    _req: http.IncomingMessage,
    res: http.ServerResponse,
    request: any
  ): void {
    switch (request.method) {
      case 'tools/list':
        this.sendResult(res, request, { tools: this.tools() });
        return;
      case 'tools/call':
        this.calls.push(request);
        this.handleCall(res, request);
        return;
      default:
        this.sendGenericResult(res, request);
    }
  }

  private sendResult(
    res: http.ServerResponse,
    request: any,
    result: Json
  ): void {
    this.sendJson(res, {
      jsonrpc: '2.0',
      id: request.id,
      result: withRequiredDraftResultFields(request.method, result)
    });
  }

  private tools(): Json[] {
    const names = [DEFAULT_MODE, FORM, URL_MODE, TWO_QUESTIONS, TWO_ROUNDS];
    const tools: Json[] = [...names, STATE_ONLY].map((name) => ({
      name,
      description: 'Test tool: see the description of the scenario.',
      inputSchema: { type: 'object', properties: {} }
    }));
    const item = {
      type: 'object',
      properties: { item: { type: 'string', enum: ['one'] } },
      required: ['item']
    };
    return [
      ...tools,
      {
        name: LOST,
        description:
          'Test tool: its response stream breaks twice before it responds.',
        inputSchema: item
      }
    ];
  }

  private handleCall(res: http.ServerResponse, request: any): void {
    const { name, inputResponses, requestState } = request.params;
    const ask = (inputRequests: Json | undefined, state?: string) =>
      this.sendResult(res, request, {
        resultType: 'input_required',
        ...(inputRequests ? { inputRequests } : {}),
        ...(state !== undefined ? { requestState: state } : {})
      });
    const done = () =>
      this.sendResult(res, request, {
        content: [{ type: 'text', text: 'done' }]
      });
    const first = inputResponses === undefined && requestState === undefined;

    if (name === DEFAULT_MODE && first) {
      ask({ name: form(NAME_SCHEMA, {}) });
    } else if (name === FORM && first) {
      ask({ form: form(FORM_SCHEMA) });
    } else if (name === URL_MODE && first) {
      const url = `http://localhost:${this.port}${CONSENT}`;
      ask({
        open: {
          method: 'elicitation/create',
          params: { mode: 'url', message: 'Please open this', url }
        }
      });
    } else if (name === TWO_QUESTIONS && first) {
      ask({ first: form(NAME_SCHEMA), second: form(NAME_SCHEMA) });
    } else if (name === TWO_ROUNDS && first) {
      ask({ step1: form(NAME_SCHEMA) }, 'state of round 1');
    } else if (name === TWO_ROUNDS && inputResponses?.step1) {
      ask({ step2: form(NAME_SCHEMA) }, 'state of round 2');
    } else if (name === STATE_ONLY && first) {
      ask(undefined, 'state alone');
    } else if (
      name === LOST &&
      this.calls.filter(({ params }) => params.name === LOST).length < 3
    ) {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' });
      res.write(': working\n\n', () => res.destroy());
    } else {
      done();
    }
  }
}

export const clientScenarios = [new MRTRClientConductScenario()];
