"""Old clients: pushed questions, and the shim in which a handler knows nothing of them."""

from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.legacy_shim import MAX_ROUNDS, legacy_shim
from mrtr_options.sdk.push import push, push_request
from mrtr_options.sdk.questions import CannotAsk, answer_to, ask, is_modern, link, request_for
from tests.rounds import text_of
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    capabilities,
    of_session,
    params,
    result,
    who,
)

pytestmark = pytest.mark.anyio


def legacy(*, can_send_request: bool = True, **user: Any) -> Context:
    session = FakeSession(capabilities(form=True), can_send_request=can_send_request, **user)
    return of_session(session, modern=False)


async def accepting(request: types.ServerRequest) -> types.InputResponse:
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def test_without_a_back_channel_the_handler_sees_the_old_client_as_it_is() -> None:
    seen: list[tuple[Context, Params]] = []

    async def handler(ctx: Context, params: Params) -> types.CallToolResult:
        seen.append((ctx, params))
        return result("as it is")

    ctx, call = legacy(can_send_request=False), params()
    assert text_of(await legacy_shim(handler)(ctx, call)) == "as it is"
    assert seen == [(ctx, call)]
    assert not is_modern(seen[0][0])


async def test_every_question_of_a_round_is_answered_and_the_state_comes_back() -> None:
    async def handler(
        ctx: Context, params: Params
    ) -> types.CallToolResult | types.InputRequiredResult:
        assert is_modern(ctx)
        if params.request_state is None:  # not every round asks
            return types.InputRequiredResult(request_state="later")
        if params.request_state == "later":
            both = {
                **(ask(who("one")).input_requests or {}),
                **(ask(who("two")).input_requests or {}),
            }
            return types.InputRequiredResult(input_requests=both, request_state="kept")
        names = [answer_to(who(key), ctx, params) for key in ("one", "two")]
        assert all(name is not None and name.name == "Ann" for name in names)
        return result(params.request_state)

    assert text_of(await legacy_shim(handler)(legacy(user=accepting), params())) == "kept"


async def test_a_handler_that_asks_for_ever_is_stopped() -> None:
    rounds = 0

    async def handler(ctx: Context, params: Params) -> types.InputRequiredResult:
        nonlocal rounds
        rounds += 1
        return ask(who())

    with pytest.raises(MCPError, match=f"still asks after {MAX_ROUNDS} rounds") as refusal:
        await legacy_shim(handler)(legacy(user=accepting), params())
    assert refusal.value.code == types.INTERNAL_ERROR
    assert rounds == MAX_ROUNDS


async def test_an_address_is_pushed_with_the_number_that_old_clients_want() -> None:
    session = FakeSession(capabilities(form=True), can_send_request=True, user=accepting)
    asked = request_for(link("pay", "Pay here.", "https://pay.example"))
    await push_request(of_session(session, modern=False), "pay", asked)
    (request,) = session.pushed
    assert isinstance(request, types.ElicitRequest)
    assert isinstance(request.params, types.ElicitRequestURLParams)
    assert request.params.elicitation_id


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (lambda: MCPError(types.INVALID_REQUEST, "the user has gone"), "has gone"),
        (lambda: types.ElicitResult.model_validate({}), "'who' does not fit .* type ElicitResult"),
    ],
)
async def test_what_is_no_answer_is_an_error(raised: Callable[[], Exception], says: str) -> None:
    async def user(request: types.ServerRequest) -> types.InputResponse:
        raise raised()

    with pytest.raises(MCPError, match=says):
        await push(legacy(user=user), who(assumed="Nobody"))


@pytest.mark.parametrize(
    ("session", "is_new"),
    [
        (FakeSession(capabilities(form=True), can_send_request=False), False),
        (FakeSession(capabilities(form=True), can_send_request=True), True),
        (FakeSession(capabilities(url=True), can_send_request=True), False),
        (FakeSession(types.ClientCapabilities(), can_send_request=True), False),
        (FakeSession(None, can_send_request=True), False),
    ],
    ids=["no-back-channel", "modern", "url-only", "no-elicitation", "nothing-declared"],
)
async def test_a_client_that_cannot_be_pushed_to_is_not(session: FakeSession, is_new: bool) -> None:
    ctx = of_session(session, modern=is_new)
    assert (await push(ctx, who(assumed="Nobody"))).name == "Nobody"
    with pytest.raises(CannotAsk, match="Say who who is"):
        await push(ctx, who())
    assert session.pushed == []
