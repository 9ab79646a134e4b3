"""Pushing: asking a legacy client by a request of the server's own, where there is a back-channel."""

from __future__ import annotations

import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.push import push, push_request
from mrtr_options.sdk.questions import CannotAsk, link, request_for
from tests.sdk.fakes import FakeSession, Name, capabilities, of_session, who

pytestmark = pytest.mark.anyio


def answering(given: types.InputResponse) -> FakeSession:
    """A legacy client with a back-channel, whose user answers this."""

    async def user(request: types.ServerRequest) -> types.InputResponse:
        return given

    return FakeSession(capabilities(form=True), can_send_request=True, user=user)


async def test_an_address_is_pushed_with_the_number_that_old_clients_want() -> None:
    session = answering(types.ElicitResult(action="accept"))
    asked = request_for(link("pay", "Pay here.", "https://pay.example"))
    await push_request(of_session(session, modern=False), asked)
    (request,) = session.pushed
    assert isinstance(request, types.ElicitRequest)
    assert isinstance(request.params, types.ElicitRequestURLParams)
    assert request.params.elicitation_id


async def test_an_error_of_the_clients_is_no_answer() -> None:
    async def user(request: types.ServerRequest) -> types.InputResponse:
        raise MCPError(types.INVALID_REQUEST, "the user has gone")

    session = FakeSession(capabilities(form=True), can_send_request=True, user=user)
    with pytest.raises(MCPError, match="has gone"):
        await push(of_session(session, modern=False), who(assumed="Nobody"))


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
    assert await push(ctx, who(assumed="Nobody")) == Name(name="Nobody")
    with pytest.raises(CannotAsk, match="Say who who is"):
        await push(ctx, who())
    assert session.pushed == []
