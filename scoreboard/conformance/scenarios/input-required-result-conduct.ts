/**
 * SEP-2322: InputRequiredResult - conduct of a server between the rounds
 *
 * The scenarios of input-required-result.ts check the shape of each round. These check what a round
 * does: a fixture tool counts its effects and says so in its result, and a second caller, a state from
 * elsewhere and an answer that is no consent show what a server makes of them.
 */

import type {
  CheckStatus,
  ClientScenario,
  ConformanceCheck,
  SpecVersion
} from '../../types';
import { DRAFT_PROTOCOL_VERSION } from '../../types';
import type { RunContext } from '../../connection';
import { sendStatelessRequest } from '../../connection';
import { untestableCheck } from '../untestable';
import {
  isInputRequiredResult,
  isCompleteResult,
  mockElicitResponse,
  MRTR_SPEC_REFERENCES
} from './input-required-result-helpers';

type Result = Record<string, any>;
type Severity = 'FAILURE' | 'WARNING';

const SPEC = 'https://modelcontextprotocol.io/specification/2026-07-28/';
const ELICITATION_SPEC_REFERENCES = [
  { id: 'Elicitation', url: `${SPEC}client/elicitation` }
];
const TOOLS_SPEC_REFERENCES = [{ id: 'Tools', url: `${SPEC}server/tools` }];
const CANCELLATION_SPEC_REFERENCES = [
  {
    id: 'StreamableHTTP-Cancellation',
    url: `${SPEC}basic/transports/streamable-http#cancellation`
  }
];

const EFFECT = 'test_input_required_result_effect';
const TWO_ROUNDS = 'test_input_required_result_two_rounds';
const EXPIRING = 'test_input_required_result_expiring';
const EFFECTS = 'test_input_required_result_effects';
const SLOW = 'test_input_required_result_slow';
const STATE_ONLY = 'test_input_required_result_state_only';
const TWO_QUESTIONS = 'test_input_required_result_two_questions';
const URL_MODE = 'test_input_required_result_url';
const REQUEST_STATE = 'test_input_required_result_request_state';
const TAMPERED_STATE = 'test_input_required_result_tampered_state';
const ELICITATION = 'test_input_required_result_elicitation';

const INTERNAL_ERROR = -32603;
const ALICE = { Authorization: 'Bearer conformance-alice' };
const BOB = { Authorization: 'Bearer conformance-bob' };
const YES = { confirm: mockElicitResponse({ ok: true }) };
const ZOE = { user_name: mockElicitResponse({ name: 'Zoe' }) };

/** The fixture tools that count, as every description below asks for them. */
const COUNTING = `\`${EFFECT}\` takes the argument \`order\` (a string). Round 1 asks one elicitation,
\`confirm\` (\`{"ok": boolean}\`), and has a \`requestState\`. Round 2 has one effect per accepted state, and returns
\`structuredContent: {"effects": <number of effects for this order so far>}\`. \`${EFFECTS}\` takes \`order\` and
returns the same count without an effect. \`${TWO_ROUNDS}\` is as \`${EFFECT}\`, and asks \`user_name\`
(\`{"name": string}\`) in a round before. The bearer token of a request is its principal.`;

let orders = 0;

/** An order of its own for each check, so that counts do not mix. */
function newOrder(): string {
  orders += 1;
  return `order-${Date.now()}-${orders}`;
}

async function post(
  serverUrl: string,
  method: string,
  params: Result,
  headers: Record<string, string> = ALICE
): Promise<Result> {
  const response = await sendStatelessRequest(serverUrl, method, params, {
    headers,
    skipValidation: true
  });
  if (!response.body) {
    throw new Error(
      `Expected a JSON-RPC response for ${method}, got HTTP ${response.status}`
    );
  }
  return response.body as Result;
}

function callTool(
  serverUrl: string,
  name: string,
  args: Result,
  more: Result = {},
  headers: Record<string, string> = ALICE
): Promise<Result> {
  return post(
    serverUrl,
    'tools/call',
    { name, arguments: args, ...more },
    headers
  );
}

/** Round 1: the state that the client is to echo. */
async function firstState(
  serverUrl: string,
  name: string,
  args: Result,
  headers: Record<string, string> = ALICE
): Promise<string> {
  const { result, error } = await callTool(serverUrl, name, args, {}, headers);
  if (
    !isInputRequiredResult(result) ||
    typeof result.requestState !== 'string'
  ) {
    throw new Untestable(
      `${name} returned no InputRequiredResult with requestState` +
        (error ? ` (${error.code} ${error.message})` : '')
    );
  }
  return result.requestState;
}

/** Round 2 of a tool that asks user_name before: the state that the client is to echo in round 3. */
async function laterState(
  serverUrl: string,
  name: string,
  args: Result,
  headers: Record<string, string> = ALICE
): Promise<string> {
  const requestState = await firstState(serverUrl, name, args, headers);
  const { result, error } = await callTool(
    serverUrl,
    name,
    args,
    { inputResponses: ZOE, requestState },
    headers
  );
  if (
    !isInputRequiredResult(result) ||
    !result.inputRequests?.confirm ||
    typeof result.requestState !== 'string'
  ) {
    throw new Untestable(
      `${name} did not ask confirm in its second round` +
        (error ? ` (${error.code} ${error.message})` : '')
    );
  }
  return result.requestState;
}

/** The tools that count, and what gives the state of their last round. */
const LAST_ROUNDS = [
  { tool: EFFECT, lastState: firstState },
  { tool: TWO_ROUNDS, lastState: laterState }
];

/** Sends a last round, and returns how many effects its order has then. */
async function lastRound(
  serverUrl: string,
  tool: string,
  order: string,
  requestState: string,
  headers: Record<string, string> = ALICE
): Promise<number> {
  await callTool(
    serverUrl,
    tool,
    { order },
    { inputResponses: YES, requestState },
    headers
  );
  return effectsOf(serverUrl, order);
}

/** A rejection says something only of a tool that accepts what is as it should be. */
async function acceptsItsOwn(serverUrl: string): Promise<void> {
  for (const { tool, lastState } of LAST_ROUNDS) {
    const order = newOrder();
    const state = await lastState(serverUrl, tool, { order });
    if ((await lastRound(serverUrl, tool, order, state)) !== 1) {
      throw new Untestable(
        `${tool} has not one effect in a call without faults`
      );
    }
  }
}

/** Another character for one of a state, so that it stays of the same alphabet. */
function altered(state: string, at: number): string {
  let index = Math.floor(at);
  while (index < state.length - 1 && !/[A-Za-z0-9]/.test(state[index]))
    index += 1;
  const other =
    state[index] === 'A'
      ? 'B'
      : state[index] === '1'
        ? '2'
        : /\d/.test(state[index])
          ? '1'
          : 'A';
  return state.slice(0, index) + other + state.slice(index + 1);
}

/** A text with one value of its JSON changed, once for each value. */
function alteredValues(text: string): string[] {
  const tokens = /"(?:[^"\\]|\\.)*"(\s*:)?|-?\d+(?:\.\d+)?|\btrue\b|\bfalse\b/g;
  const values = [...text.matchAll(tokens)].filter(([, isKey]) => !isKey);
  return values.map((value) => {
    const found = value[0];
    const other = found.startsWith('"')
      ? `${found.slice(0, -1)}x"`
      : found === 'true' || found === 'false'
        ? String(found === 'false')
        : `${found}1`;
    return (
      text.slice(0, value.index) +
      other +
      text.slice(value.index + found.length)
    );
  });
}

/** Another text in the base64 that a part of a state is in: its alphabet, and padded or not. */
function encodedLike(part: string, text: string): string {
  const encoding = /[+/]/.test(part) ? 'base64' : 'base64url';
  const encoded = Buffer.from(text).toString(encoding).replace(/=+$/, '');
  const padding = '='.repeat((4 - (encoded.length % 4)) % 4);
  return part.endsWith('=') || part.length % 4 === 0
    ? encoded + padding
    : encoded;
}

/** A state with one value changed, for each value of JSON that can be read in it. */
function alteredInside(state: string): string[] {
  if (state.startsWith('{')) return alteredValues(state);
  const parts = state.split('.');
  return parts.flatMap((part, index) => {
    const text = Buffer.from(part, 'base64url').toString();
    return text.startsWith('{')
      ? alteredValues(text).map((other) =>
          parts
            .map((each, at) => (at === index ? encodedLike(part, other) : each))
            .join('.')
        )
      : [];
  });
}

/** What to do to a state that it is to be rejected: one character changed at 39 places, then one value. */
function alterations(
  state: string
): { what: string; by: (state: string) => string }[] {
  const places = Array.from({ length: 39 }, (_, place) => ({
    what: `at ${place + 1} fortieths`,
    by: (each: string) => altered(each, (each.length * (place + 1)) / 40)
  }));
  const values = alteredInside(state).map((_, index) => ({
    what: `in value ${index + 1} of its JSON`,
    by: (each: string) => alteredInside(each)[index]
  }));
  return [...places, ...values];
}

async function effectsOf(serverUrl: string, order: string): Promise<number> {
  const { result, error } = await callTool(serverUrl, EFFECTS, { order });
  const effects = result?.structuredContent?.effects;
  if (typeof effects !== 'number') {
    throw new Untestable(
      `${EFFECTS} returned no count` + (error ? ` (${error.message})` : '')
    );
  }
  return effects;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

class Untestable extends Error {}

/** Runs one check: find returns what is wrong; a prerequisite that is missing fails the check. */
async function check(
  checks: ConformanceCheck[],
  id: string,
  name: string,
  description: string,
  severity: Severity,
  specReferences: { id: string; url?: string }[],
  find: () => Promise<string[]>
): Promise<void> {
  try {
    const errors = await find();
    const status: CheckStatus = errors.length === 0 ? 'SUCCESS' : severity;
    checks.push({
      id,
      name,
      description,
      status,
      timestamp: new Date().toISOString(),
      errorMessage: errors.length > 0 ? errors.join('; ') : undefined,
      specReferences
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    checks.push(
      untestableCheck(id, name, description, reason, specReferences, severity)
    );
  }
}

// ─── State: altered, from elsewhere, too old ─────────────────────────────────

export class InputRequiredResultStateBindingScenario implements ClientScenario {
  name = 'input-required-result-state-binding';
  readonly source = { introducedIn: DRAFT_PROTOCOL_VERSION } as const;
  specVersions: SpecVersion[] = [DRAFT_PROTOCOL_VERSION];
  description = `Test that a server takes a requestState only unchanged, from its principal, on its request, and in time (SEP-2322).

**Server Implementation Requirements:**

${COUNTING}

\`${EXPIRING}\` is as \`${TWO_ROUNDS}\`, and its states lapse after one second. \`${REQUEST_STATE}\` and
\`${TAMPERED_STATE}\` as in the scenarios of their names. \`${STATE_ONLY}\` returns a requestState and no inputRequests, and completes when
it is echoed.`;

  async run(ctx: RunContext): Promise<ConformanceCheck[]> {
    const { serverUrl } = ctx;
    const checks: ConformanceCheck[] = [];

    await check(
      checks,
      'sep-2322-reject-altered-state',
      'RejectAlteredState',
      'Server rejects a requestState with one character or value changed inside of it',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        const any = await firstState(serverUrl, TAMPERED_STATE, {});
        for (const { what, by } of alterations(any)) {
          const requestState = by(
            await firstState(serverUrl, TAMPERED_STATE, {})
          );
          // A server that breaks down over a state has not accepted it.
          const { result } = await callTool(
            serverUrl,
            TAMPERED_STATE,
            {},
            {
              inputResponses: YES,
              requestState
            }
          ).catch((): Result => ({}));
          if (isCompleteResult(result)) {
            errors.push(
              `Server accepted a requestState that was changed ${what}`
            );
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-state-rejected-on-other-tool',
      'StateRejectedOnOtherTool',
      'Server rejects the requestState of another tool',
      'WARNING',
      MRTR_SPEC_REFERENCES,
      async () => {
        const requestState = await firstState(serverUrl, REQUEST_STATE, {});
        // Both ask, or there is nothing to reject.
        await firstState(serverUrl, TAMPERED_STATE, {});
        const { result } = await callTool(
          serverUrl,
          TAMPERED_STATE,
          {},
          {
            inputResponses: YES,
            requestState
          }
        );
        return isCompleteResult(result)
          ? [
              `${TAMPERED_STATE} completed with a requestState of ${REQUEST_STATE}`
            ]
          : [];
      }
    );

    await check(
      checks,
      'sep-2322-reject-altered-later-state',
      'RejectAlteredLaterState',
      'Server rejects a requestState of a later round with one character or value changed inside of it',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        await acceptsItsOwn(serverUrl);
        const any = await laterState(serverUrl, TWO_ROUNDS, {
          order: newOrder()
        });
        for (const { what, by } of alterations(any)) {
          const order = newOrder();
          const changed = by(
            await laterState(serverUrl, TWO_ROUNDS, { order })
          );
          await callTool(
            serverUrl,
            TWO_ROUNDS,
            { order },
            { inputResponses: YES, requestState: changed }
          ).catch(() => undefined);
          if ((await effectsOf(serverUrl, order)) > 0) {
            errors.push(
              `Server accepted a requestState that was changed ${what}`
            );
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-state-rejected-on-other-arguments',
      'StateRejectedOnOtherArguments',
      'Server rejects a requestState that was given for other arguments',
      'WARNING',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        await acceptsItsOwn(serverUrl);
        for (const { tool, lastState } of LAST_ROUNDS) {
          for (const alike of [
            () => newOrder(),
            (order: string) => order.toUpperCase(),
            (order: string) => `${order} `,
            (order: string) => `${order}0`,
            (order: string) => order.slice(0, -1)
          ]) {
            const confirmed = newOrder();
            const order = alike(confirmed);
            const state = await lastState(serverUrl, tool, {
              order: confirmed
            });
            if ((await lastRound(serverUrl, tool, order, state)) > 0) {
              errors.push(
                `${tool} had an effect for "${order}", and "${confirmed}" was confirmed`
              );
            }
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-state-rejected-for-other-principal',
      'StateRejectedForOtherPrincipal',
      'Server rejects the requestState of another principal',
      'WARNING',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        await acceptsItsOwn(serverUrl);
        for (const { tool, lastState } of LAST_ROUNDS) {
          for (const [who, headers] of [
            ['another one', BOB],
            ['a client without credentials', {}]
          ] as const) {
            const order = newOrder();
            const state = await lastState(serverUrl, tool, { order }, ALICE);
            if ((await lastRound(serverUrl, tool, order, state, headers)) > 0) {
              errors.push(
                `${tool} took one principal's requestState from ${who}`
              );
            }
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-expired-state-rejected',
      'ExpiredStateRejected',
      'Server rejects a requestState after it has lapsed, in each round',
      'WARNING',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        const first = { order: newOrder() };
        const requestState = await firstState(serverUrl, EXPIRING, first);
        const order = newOrder();
        const later = await laterState(serverUrl, EXPIRING, { order });
        await sleep(1500);
        const { result } = await callTool(serverUrl, EXPIRING, first, {
          inputResponses: ZOE,
          requestState
        });
        if (result?.inputRequests?.confirm) {
          errors.push(
            'Server took a requestState of the first round that had lapsed'
          );
        }
        if ((await lastRound(serverUrl, EXPIRING, order, later)) > 0) {
          errors.push(
            'Server took a requestState of the second round that had lapsed'
          );
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-state-only-complete',
      'StateOnlyComplete',
      'Server completes a call that is retried with requestState alone',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const first = await callTool(serverUrl, STATE_ONLY, {});
        if (!isInputRequiredResult(first.result)) {
          throw new Untestable(`${STATE_ONLY} returned no InputRequiredResult`);
        }
        const { requestState } = first.result;
        if (requestState === undefined) {
          return [
            'An InputRequiredResult without inputRequests has no requestState'
          ];
        }
        const { result, error } = await callTool(
          serverUrl,
          STATE_ONLY,
          {},
          { requestState }
        );
        return isCompleteResult(result)
          ? []
          : [
              `Expected a complete result, got ${JSON.stringify(error ?? result)}`
            ];
      }
    );

    return checks;
  }
}

// ─── Effects: once, and with consent only ────────────────────────────────────

export class InputRequiredResultEffectsScenario implements ClientScenario {
  name = 'input-required-result-effects';
  readonly source = { introducedIn: DRAFT_PROTOCOL_VERSION } as const;
  specVersions: SpecVersion[] = [DRAFT_PROTOCOL_VERSION];
  description = `Test when and how often a tool that asks has its effect (SEP-2322).

**Server Implementation Requirements:**

${COUNTING}

\`${SLOW}\` takes \`order\`, answers with an SSE stream, and has one effect for the order after a second, unless the
stream is closed before.`;

  async run(ctx: RunContext): Promise<ConformanceCheck[]> {
    const { serverUrl } = ctx;
    const checks: ConformanceCheck[] = [];

    await check(
      checks,
      'sep-2322-state-consumed-once',
      'StateConsumedOnce',
      'A last round that is delivered twice, in a row or at once, has one effect',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        for (const { tool, lastState } of LAST_ROUNDS) {
          for (const atOnce of [false, true]) {
            const order = newOrder();
            const state = await lastState(serverUrl, tool, { order });
            const last = () => lastRound(serverUrl, tool, order, state);
            if (atOnce) {
              await Promise.all([last(), last()]);
            } else {
              await last();
              await last();
            }
            const effects = await effectsOf(serverUrl, order);
            if (effects !== 1) {
              errors.push(
                `${tool}: ${effects} effects of one state, delivered twice ${atOnce ? 'at once' : 'in a row'}`
              );
            }
          }
        }
        return errors;
      }
    );

    for (const action of ['decline', 'cancel'] as const) {
      await check(
        checks,
        `sep-2322-${action}-handled`,
        action === 'decline' ? 'DeclineHandled' : 'CancelHandled',
        `Server handles a user who chooses to ${action}: no effect, and no internal error`,
        'FAILURE',
        ELICITATION_SPEC_REFERENCES,
        async () => {
          const errors: string[] = [];
          for (const content of [undefined, { ok: true }]) {
            const order = newOrder();
            const requestState = await firstState(serverUrl, EFFECT, { order });
            const { error } = await callTool(
              serverUrl,
              EFFECT,
              { order },
              {
                inputResponses: {
                  confirm: { action, ...(content ? { content } : {}) }
                },
                requestState
              }
            );
            // Any other error may be a server's way to end the call.
            if (error?.code === INTERNAL_ERROR)
              errors.push(`JSON-RPC error: ${error.code} ${error.message}`);
            const effects = await effectsOf(serverUrl, order);
            if (effects > 0)
              errors.push(
                `The user chose to ${action}, and the tool had its effect`
              );
          }
          return errors;
        }
      );
    }

    await check(
      checks,
      'sep-2322-content-validated',
      'ContentValidated',
      'An answer without a valid action, or that does not fit the requested schema, is no answer',
      'WARNING',
      ELICITATION_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        for (const answer of [
          { action: 'accept', content: { ok: 'yes' } },
          { action: 'accept', content: {} },
          { action: 'accept' },
          { action: 'ACCEPT', content: { ok: true } },
          { action: null, content: { ok: true } },
          { content: { ok: true } }
        ]) {
          const order = newOrder();
          const requestState = await firstState(serverUrl, EFFECT, { order });
          await callTool(
            serverUrl,
            EFFECT,
            { order },
            {
              inputResponses: { confirm: answer },
              requestState
            }
          );
          if ((await effectsOf(serverUrl, order)) > 0) {
            errors.push(
              `The tool had its effect with the answer ${JSON.stringify(answer)}`
            );
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-answers-belong-to-user',
      'AnswersBelongToUser',
      "One user's answers do not count for another one's call",
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        for (const { tool, lastState } of LAST_ROUNDS) {
          for (const same of [false, true]) {
            const alices = newOrder();
            const state = await lastState(
              serverUrl,
              tool,
              { order: alices },
              ALICE
            );
            await lastRound(serverUrl, tool, alices, state, ALICE);
            const order = same ? alices : newOrder();
            const before = await effectsOf(serverUrl, order);
            const { result } = await callTool(
              serverUrl,
              tool,
              { order },
              {},
              BOB
            );
            await callTool(
              serverUrl,
              tool,
              { order },
              { inputResponses: {}, requestState: result?.requestState },
              BOB
            );
            if ((await effectsOf(serverUrl, order)) > before) {
              errors.push(
                `${tool}: a user who answered nothing had an effect with the answers of another user`
              );
            }
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-abandoned-call',
      'AbandonedCall',
      'A call whose client does not come back has no effect and blocks no other',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        const order = newOrder();
        await firstState(serverUrl, EFFECT, { order });
        if ((await effectsOf(serverUrl, order)) > 0)
          errors.push('The tool had its effect before any answer');
        const again = await callTool(serverUrl, EFFECT, { order });
        if (!isInputRequiredResult(again.result)) {
          errors.push(
            `A second call does not get its question: ${JSON.stringify(again.error ?? again.result)}`
          );
        }
        return errors;
      }
    );

    await check(
      checks,
      'stream-close-cancels',
      'StreamCloseCancels',
      'A closed response stream cancels the request: it has no effect afterwards',
      'FAILURE',
      CANCELLATION_SPEC_REFERENCES,
      async () => {
        const order = newOrder();
        await sendStatelessRequest(
          serverUrl,
          'tools/call',
          { name: SLOW, arguments: { order } },
          {
            headers: ALICE,
            skipValidation: true,
            timeoutMs: 300
          }
        ).catch(() => undefined);
        await sleep(1300);
        if ((await effectsOf(serverUrl, order)) > 0) {
          return [
            'The tool had its effect after the client had closed the stream'
          ];
        }
        const whole = await callTool(serverUrl, SLOW, { order });
        if (!isCompleteResult(whole.result))
          throw new Untestable(`${SLOW} does not complete`);
        return [];
      }
    );

    await check(
      checks,
      'sep-2322-no-requests-on-tool-stream',
      'NoRequestsOnToolStream',
      'Server sends no request on the response stream of a tool call',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        for (const [name, args] of [
          [SLOW, { order: newOrder() }],
          [EFFECT, { order: newOrder() }],
          ['test_simple_text', {}]
        ] as const) {
          const { events, body } = await sendStatelessRequest(
            serverUrl,
            'tools/call',
            { name, arguments: args },
            { headers: ALICE, skipValidation: true }
          );
          if (!body?.result) throw new Untestable(`${name} has no result`);
          for (const event of (events ?? []) as Result[]) {
            if (event.method !== undefined && event.id !== undefined)
              errors.push(`${name}: ${event.method} on the response stream`);
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'tools-structured-content',
      'ToolsStructuredContent',
      'A structured result conforms to the output schema of its tool',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const { result, error } = await callTool(serverUrl, EFFECTS, {
          order: newOrder()
        });
        if (!result || result.isError) {
          throw new Untestable(`${EFFECTS} failed: ${error?.message}`);
        }
        return Number.isInteger(result.structuredContent?.effects)
          ? []
          : [
              `effects is no integer: ${JSON.stringify(result.structuredContent)}`
            ];
      }
    );

    await check(
      checks,
      'tools-structured-content-as-text',
      'ToolsStructuredContentAsText',
      'A structured result is there as a text, too',
      'WARNING',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const { result, error } = await callTool(serverUrl, EFFECTS, {
          order: newOrder()
        });
        if (!result?.structuredContent)
          throw new Untestable(
            `${EFFECTS} is not structured: ${error?.message}`
          );
        const texts: string[] = (result.content ?? []).map((each: Result) =>
          String(each.text)
        );
        return texts.some((text) =>
          text.includes(String(result.structuredContent.effects))
        )
          ? []
          : ['No text has the value of the structured content'];
      }
    );

    await check(
      checks,
      'tools-arguments-validated',
      'ToolsArgumentsValidated',
      'A call whose arguments break the input schema is refused',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () => {
        await effectsOf(serverUrl, newOrder());
        const { result } = await callTool(serverUrl, EFFECTS, {
          order: { nested: true }
        });
        return result && !result.isError
          ? ['Server took an object where its schema has a string']
          : [];
      }
    );

    for (const key of [undefined, newOrder()]) {
      const order = newOrder();
      const meta = key ? { _meta: { 'mrtr-options/call-key': key } } : {};
      const states = [];
      for (let time = 0; time < 2; time += 1) {
        const { result } = await callTool(serverUrl, EFFECT, { order }, meta);
        if (isInputRequiredResult(result)) states.push(result.requestState);
      }
      for (const requestState of states) {
        await callTool(
          serverUrl,
          EFFECT,
          { order },
          { inputResponses: YES, requestState, ...meta }
        );
      }
      const effects = await effectsOf(serverUrl, order).catch(() => undefined);
      checks.push({
        id: `first-request-twice-${key ? 'with' : 'without'}-key`,
        name: `FirstRequestTwice${key ? 'With' : 'Without'}Key`,
        description:
          'How many effects two deliveries of a first request lead to (no sentence says how many there should be)',
        status: 'INFO',
        timestamp: new Date().toISOString(),
        specReferences: MRTR_SPEC_REFERENCES,
        details: { effects }
      });
    }

    return checks;
  }
}

// ─── Questions: which, whom, how ─────────────────────────────────────────────

const SENSITIVE =
  /passw|secret|token|api.?key|credential|card.?number|cvv|\bpin\b/i;

/** A JWT: its header is JSON in base64url, which begins with {". */
const SIGNED_TOKEN = /\beyJ[\w-]+\.[\w-]+\.[\w-]*/;

function elicitations(result: Result | undefined): Result[] {
  return Object.values((result?.inputRequests ?? {}) as Record<string, Result>)
    .filter((each) => each.method === 'elicitation/create')
    .map((each) => each.params ?? {});
}

export class InputRequiredResultQuestionsScenario implements ClientScenario {
  name = 'input-required-result-questions';
  readonly source = { introducedIn: DRAFT_PROTOCOL_VERSION } as const;
  specVersions: SpecVersion[] = [DRAFT_PROTOCOL_VERSION];
  description = `Test what a server asks, whom, and what it makes of a part of the answers (SEP-2322).

**Server Implementation Requirements:**

\`${ELICITATION}\` as in input-required-result-basic-elicitation. \`${TWO_QUESTIONS}\` asks \`user_name\`
(\`{"name": string}\`) and \`confirm\` (\`{"ok": boolean}\`) in one round, and its result has the name in its text.
\`${URL_MODE}\` asks the user to open a URL. A server whose client has not declared what it would have to ask may ask
less, or fail.`;

  async run(ctx: RunContext): Promise<ConformanceCheck[]> {
    const { serverUrl } = ctx;
    const checks: ConformanceCheck[] = [];
    const declaring = (elicitation: Result | undefined) => ({
      _meta: {
        'io.modelcontextprotocol/clientCapabilities': elicitation
          ? { elicitation }
          : {}
      }
    });
    const both = declaring({ form: {}, url: {} });

    await check(
      checks,
      'sep-2322-missing-answers-rerequested',
      'MissingAnswersRerequested',
      'Server asks again for the one of two answers that is missing, and uses both',
      'WARNING',
      MRTR_SPEC_REFERENCES,
      async () => {
        const requestState = await firstState(serverUrl, TWO_QUESTIONS, {});
        const partial = await callTool(
          serverUrl,
          TWO_QUESTIONS,
          {},
          { inputResponses: ZOE, requestState }
        );
        if (!isInputRequiredResult(partial.result)) {
          return [
            `Expected the missing question, got ${JSON.stringify(partial.error ?? partial.result)}`
          ];
        }
        const keys = Object.keys(partial.result.inputRequests ?? {});
        const rest = keys.includes('user_name') ? { ...ZOE, ...YES } : YES;
        const { result, error } = await callTool(
          serverUrl,
          TWO_QUESTIONS,
          {},
          {
            inputResponses: rest,
            requestState: partial.result.requestState
          }
        );
        return JSON.stringify(result ?? error).includes('Zoe')
          ? []
          : [
              `The first answer is not in the result: ${JSON.stringify(result ?? error)}`
            ];
      }
    );

    await check(
      checks,
      'sep-2322-input-request-keys-unique',
      'InputRequestKeysUnique',
      'Each question of a round has a key of its own',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const { result } = await callTool(serverUrl, TWO_QUESTIONS, {});
        if (!isInputRequiredResult(result))
          throw new Untestable(`${TWO_QUESTIONS} did not ask`);
        // A key that is there twice is there once after parsing, so one of the two is gone.
        return Object.keys(result.inputRequests ?? {}).length === 2
          ? []
          : [
              `Expected two keys, got: ${Object.keys(result.inputRequests ?? {})}`
            ];
      }
    );

    await check(
      checks,
      'sep-2322-respect-undeclared-elicitation',
      'RespectUndeclaredElicitation',
      'Server sends no elicitation to a client that declared none',
      'FAILURE',
      MRTR_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        for (const tool of [ELICITATION, TWO_QUESTIONS]) {
          const { result } = await callTool(
            serverUrl,
            tool,
            {},
            declaring(undefined)
          );
          if (elicitations(result).length > 0) errors.push(`${tool} asked`);
        }
        return errors;
      }
    );

    await check(
      checks,
      'elicitation-respect-modes',
      'ElicitationRespectModes',
      'Server sends no elicitation in a mode that the client did not declare',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        const form = await callTool(
          serverUrl,
          ELICITATION,
          {},
          declaring({ url: {} })
        );
        if (elicitations(form.result).some((each) => each.mode !== 'url')) {
          errors.push('A form was sent to a client that has URLs only');
        }
        for (const modes of [{}, { form: {} }]) {
          const url = await callTool(serverUrl, URL_MODE, {}, declaring(modes));
          if (elicitations(url.result).some((each) => each.mode === 'url')) {
            errors.push(
              `A URL was sent to a client that declared ${JSON.stringify(modes)}`
            );
          }
        }
        return errors;
      }
    );

    await check(
      checks,
      'sep-2322-refusal-is-no-answer',
      'RefusalIsNoAnswer',
      'Content that comes with a decline or a cancel is not used, and the call does not break',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () => {
        const errors: string[] = [];
        for (const action of ['decline', 'cancel']) {
          const first = await callTool(serverUrl, ELICITATION, {}, both);
          if (!isInputRequiredResult(first.result))
            throw new Untestable(`${ELICITATION} did not ask`);
          const { result, error } = await callTool(
            serverUrl,
            ELICITATION,
            {},
            {
              ...both,
              inputResponses: {
                user_name: { action, content: { name: 'Mallory' } }
              },
              ...(first.result.requestState
                ? { requestState: first.result.requestState }
                : {})
            }
          );
          if (error?.code === INTERNAL_ERROR)
            errors.push(
              `${action}: JSON-RPC error ${error.code} ${error.message}`
            );
          if (JSON.stringify(result ?? '').includes('Mallory'))
            errors.push(`${action}: the content was used`);
        }
        return errors;
      }
    );

    const forms = async () => {
      const found: Result[] = [];
      for (const tool of [ELICITATION, TWO_QUESTIONS, EFFECT]) {
        found.push(
          ...elicitations((await callTool(serverUrl, tool, {}, both)).result)
        );
      }
      if (found.length === 0)
        throw new Untestable('no tool asked in form mode');
      return found;
    };

    await check(
      checks,
      'elicitation-no-secrets-in-forms',
      'ElicitationNoSecretsInForms',
      'No form has a field that is named, titled or described like a password, key or token',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () =>
        (await forms())
          .flatMap((each) =>
            Object.entries<Result>(each.requestedSchema?.properties ?? {})
          )
          .filter(([field, schema]) =>
            [field, schema?.title, schema?.description].some((text) =>
              SENSITIVE.test(text ?? '')
            )
          )
          .map(([field]) => `A form asks for "${field}"`)
    );

    await check(
      checks,
      'elicitation-no-links-in-forms',
      'ElicitationNoLinksInForms',
      'No field of a form has a URL to click',
      'WARNING',
      ELICITATION_SPEC_REFERENCES,
      async () =>
        (await forms())
          .filter((each) =>
            /https?:\/\//.test(
              JSON.stringify([each.message, each.requestedSchema?.properties])
            )
          )
          .map((each) => `A form has a link: "${each.message}"`)
    );

    const urls = async () => {
      const asked = elicitations(
        (await callTool(serverUrl, URL_MODE, {}, both)).result
      );
      if (asked.length === 0)
        throw new Untestable(`${URL_MODE} asked for no URL`);
      return asked.map((each) => each.url as unknown);
    };
    const parsed = async () =>
      (await urls()).flatMap((url) =>
        typeof url === 'string' && URL.canParse(url) ? [new URL(url)] : []
      );

    await check(
      checks,
      'elicitation-url-valid',
      'ElicitationUrlValid',
      'A question in URL mode has a valid URL',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () =>
        (await urls())
          .filter((url) => typeof url !== 'string' || !URL.canParse(url))
          .map((url) => `Not a URL: ${JSON.stringify(url)}`)
    );

    await check(
      checks,
      'elicitation-url-no-user-data',
      'ElicitationUrlNoUserData',
      'The URL of a question names no user: no credentials and no e-mail address',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () =>
        (await parsed())
          .filter(
            (url) =>
              url.username ||
              /[\w.+-]+@[\w-]+\.\w+/.test(
                decodeURIComponent(url.pathname + url.search)
              )
          )
          .map((url) => `The URL names the user: ${url}`)
    );

    await check(
      checks,
      'elicitation-url-not-authenticated',
      'ElicitationUrlNotAuthenticated',
      'The URL of a question has no credentials: no parameter that is named like a token, and no signed token anywhere',
      'FAILURE',
      ELICITATION_SPEC_REFERENCES,
      async () =>
        (await parsed())
          .filter(
            (url) =>
              url.password !== '' ||
              SIGNED_TOKEN.test(url.href) ||
              [
                ...url.searchParams.keys(),
                ...new URLSearchParams(url.hash.slice(1)).keys()
              ].some((key) => SENSITIVE.test(key))
          )
          .map((url) => `The URL is authenticated: ${url}`)
    );

    await check(
      checks,
      'elicitation-url-https',
      'ElicitationUrlHttps',
      'The URL of a question is HTTPS',
      'WARNING',
      ELICITATION_SPEC_REFERENCES,
      async () =>
        (await parsed())
          .filter(
            (url) => url.protocol !== 'https:' && url.hostname !== 'localhost'
          )
          .map((url) => `The URL is not HTTPS: ${url}`)
    );

    await check(
      checks,
      'sep-2322-error-on-malformed-json',
      'ErrorOnMalformedJson',
      'Server answers malformed JSON with a JSON-RPC error response',
      'WARNING',
      MRTR_SPEC_REFERENCES,
      async () => {
        const response = await fetch(serverUrl, {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            'MCP-Protocol-Version': DRAFT_PROTOCOL_VERSION,
            'Mcp-Method': 'tools/list'
          },
          body: '{'
        });
        const text = await response.text();
        return /"error"\s*:\s*{/.test(text)
          ? []
          : [`Expected a JSON-RPC error, got: ${text.slice(0, 80)}`];
      }
    );

    return checks;
  }
}

// ─── Tools: what a list says ─────────────────────────────────────────────────

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** The x-mcp-header values of a schema: those that may be there, and those in places where none may be. */
function headersOf(
  schema: any,
  reachable = true
): { value: unknown; type: unknown; name: string; reachable: boolean }[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const found = [];
  for (const [keyword, inner] of Object.entries(schema)) {
    if (keyword === 'properties') {
      for (const [name, property] of Object.entries(inner as Result)) {
        if (property && 'x-mcp-header' in property) {
          found.push({
            value: property['x-mcp-header'],
            type: property.type,
            name,
            reachable
          });
        }
        found.push(...headersOf(property, reachable));
      }
    } else if (typeof inner === 'object' && inner !== null) {
      if ('x-mcp-header' in inner) {
        const { 'x-mcp-header': value, type } = inner as Result;
        found.push({ value, type, name: keyword, reachable: false });
      }
      found.push(...headersOf(inner, false));
    }
  }
  return found;
}

export class ToolsListIntegrityScenario implements ClientScenario {
  name = 'tools-list-integrity';
  readonly source = { introducedIn: DRAFT_PROTOCOL_VERSION } as const;
  specVersions: SpecVersion[] = [DRAFT_PROTOCOL_VERSION];
  description = `Test that the list of tools says what is true, and nothing that clients have to reject.

**Server Implementation Requirements:**

\`test_simple_text\` as in tools-call-simple-text, \`test_embedded_resource\` as in tools-call-embedded-resource.`;

  async run(ctx: RunContext): Promise<ConformanceCheck[]> {
    const { serverUrl } = ctx;
    const checks: ConformanceCheck[] = [];
    const list = async (): Promise<Result[]> => {
      const { result, error } = await post(serverUrl, 'tools/list', {});
      if (!Array.isArray(result?.tools))
        throw new Untestable(`tools/list failed: ${error?.message}`);
      return result.tools;
    };
    const headers = async () =>
      (await list()).map((tool) => headersOf(tool.inputSchema));

    await check(
      checks,
      'tools-name-unique',
      'ToolsNameUnique',
      'No two tools have the same name',
      'WARNING',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const names = (await list()).map((tool) => tool.name);
        return names
          .filter((name, index) => names.indexOf(name) !== index)
          .map((name) => `Twice: ${name}`);
      }
    );

    await check(
      checks,
      'tools-name-case-sensitive',
      'ToolsNameCaseSensitive',
      'A tool is not found under its name in capitals',
      'WARNING',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const { result } = await callTool(serverUrl, 'TEST_SIMPLE_TEXT', {});
        return result && !result.isError
          ? ['TEST_SIMPLE_TEXT was called as test_simple_text']
          : [];
      }
    );

    await check(
      checks,
      'tools-list-unaffected-by-calls',
      'ToolsListUnaffectedByCalls',
      'A call of a tool does not change the list of tools',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const names = async () =>
          (await list())
            .map((tool) => tool.name)
            .sort()
            .join();
        const before = await names();
        await callTool(serverUrl, 'test_simple_text', {});
        return before === (await names()) ? [] : ['The list has changed'];
      }
    );

    await check(
      checks,
      'tools-order-unaffected-by-calls',
      'ToolsOrderUnaffectedByCalls',
      'A call of a tool does not change the order of the list of tools',
      'WARNING',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const names = async () =>
          (await list()).map((tool) => tool.name).join();
        const before = await names();
        await callTool(serverUrl, 'test_simple_text', {});
        return before === (await names())
          ? []
          : ['The order of the list has changed'];
      }
    );

    await check(
      checks,
      'tools-header-token',
      'ToolsHeaderToken',
      'Each x-mcp-header is a field name: not empty, no spaces, no control characters',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () =>
        (await headers())
          .flat()
          .filter(
            ({ value }) => typeof value !== 'string' || !TOKEN.test(value)
          )
          .map(({ value, name }) => `${name}: ${JSON.stringify(value)}`)
    );

    await check(
      checks,
      'tools-header-unique',
      'ToolsHeaderUnique',
      'No two parameters of a tool have the same x-mcp-header, in whatever case',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () =>
        (await headers()).flatMap((each) => {
          const values = each.map(({ value }) => String(value).toLowerCase());
          return values
            .filter((value, index) => values.indexOf(value) !== index)
            .map((value) => `Twice: ${value}`);
        })
    );

    await check(
      checks,
      'tools-header-primitive',
      'ToolsHeaderPrimitive',
      'Each x-mcp-header is on a string, integer or boolean',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () =>
        (await headers())
          .flat()
          .filter(
            ({ type }) =>
              !['string', 'integer', 'boolean'].includes(String(type))
          )
          .map(({ name, type }) => `${name} is of type ${type}`)
    );

    await check(
      checks,
      'tools-header-reachable',
      'ToolsHeaderReachable',
      'Each x-mcp-header is reached from the root of the schema by properties alone',
      'FAILURE',
      TOOLS_SPEC_REFERENCES,
      async () =>
        (await headers())
          .flat()
          .filter(({ reachable }) => !reachable)
          .map(({ name, value }) => `${name}: ${value}`)
    );

    await check(
      checks,
      'tools-header-no-secrets',
      'ToolsHeaderNoSecrets',
      'No parameter that is named like a password, key or token has an x-mcp-header',
      'WARNING',
      TOOLS_SPEC_REFERENCES,
      async () =>
        (await headers())
          .flat()
          .filter(({ name }) => SENSITIVE.test(name))
          .map(({ name }) => `"${name}" is mirrored into a header`)
    );

    await check(
      checks,
      'tools-embedded-resources-capability',
      'ToolsEmbeddedResourcesCapability',
      'A server whose tools embed resources declares resources',
      'WARNING',
      TOOLS_SPEC_REFERENCES,
      async () => {
        const { result } = await callTool(
          serverUrl,
          'test_embedded_resource',
          {}
        );
        if (
          !result?.content?.some((each: Result) => each.type === 'resource')
        ) {
          throw new Untestable('test_embedded_resource embeds no resource');
        }
        const discovered = await post(serverUrl, 'server/discover', {});
        return discovered.result?.capabilities?.resources
          ? []
          : ['The capability resources is not declared'];
      }
    );

    return checks;
  }
}

export const scenarios: ClientScenario[] = [
  new InputRequiredResultStateBindingScenario(),
  new InputRequiredResultEffectsScenario(),
  new InputRequiredResultQuestionsScenario(),
  new ToolsListIntegrityScenario()
];
