"""Tests of questions and answers: the clients that can be asked, and the answers that count."""

from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from pydantic import BaseModel

from mrtr_options import sdk
from mrtr_options.review.bench.client import MODES
from mrtr_options.sdk.capabilities import can_ask, kinds
from mrtr_options.sdk.questions import Inquiry, kind_of, read_answer
from tests.sdk.fakes import FakeSession, capabilities, modern, of_session, params, who


class State(BaseModel):
    """An author's state."""

    place: str | None = None


def test_an_old_client_that_takes_forms_is_asked_in_no_response() -> None:
    session = FakeSession(capabilities(form=True))
    assert [can_ask(of_session(session, modern=is_new)) for is_new in (True, False)] == [
        True,
        False,
    ]


MESSAGE = types.CreateMessageRequestParams(
    messages=[types.SamplingMessage(role="user", content=types.TextContent(text="Hi"))],
    max_tokens=9,
)
INQUIRIES: dict[str, tuple[Inquiry[Any], types.ClientCapabilities]] = {
    "sampling": (
        sdk.sampling("it", MESSAGE, unasked="no model"),
        types.ClientCapabilities(sampling=types.SamplingCapability()),
    ),
    "roots": (
        sdk.roots("it", unasked="no folders"),
        types.ClientCapabilities(roots=types.RootsCapability()),
    ),
    "url": (
        sdk.link("it", "Sign.", "https://example.com", unasked="no browser"),
        capabilities(url=True),
    ),
}
ANSWERS: dict[str, types.InputResponse] = {
    "sampling": types.CreateMessageResult(
        role="assistant", content=types.TextContent(text="Hi"), model="m"
    ),
    "roots": types.ListRootsResult(roots=[]),
    "url": types.ElicitResult(action="accept"),
}


@pytest.mark.parametrize("kind", INQUIRIES)
def test_what_is_no_form_goes_to_a_client_that_declares_it(kind: str) -> None:
    inquiry, able = INQUIRIES[kind]
    assert kind_of(inquiry) == kind
    assert kinds(modern(able)) == {kind}
    assert kinds(of_session(FakeSession(able), modern=False)) == set()
    assert sdk.answer_to(inquiry, modern(able), params()) is None
    assert sdk.ask(inquiry).input_requests == {"it": inquiry.request}
    with pytest.raises(sdk.CannotAsk, match=inquiry.unasked):
        sdk.answer_to(inquiry, modern(), params())


@pytest.mark.anyio
@pytest.mark.parametrize("kind", INQUIRIES)
async def test_what_is_no_form_is_pushed_to_an_old_client(kind: str) -> None:
    inquiry, _ = INQUIRIES[kind]
    answers: list[object] = []

    async def handler(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        answer = sdk.answer_to(inquiry, ctx, params)
        answers.append(answer)
        return sdk.ask(inquiry) if answer is None else sdk.text("done")

    async def user(*_: object) -> Any:
        return ANSWERS[kind]

    tool = sdk.Tool("tool", "Asks.", State, handler, [sdk.legacy_shim])
    server = sdk.build_server("asking", tool)
    callbacks = ("elicitation_callback", "sampling_callback", "list_roots_callback")
    able: dict[str, Any] = dict.fromkeys(callbacks, user)
    async with Client(server, mode=MODES["legacy"], **able) as client:
        await client.call_tool("tool", {})
    assert answers == [None, ANSWERS[kind]]


@pytest.mark.parametrize("kind", INQUIRIES)
def test_an_answer_of_another_kind_is_no_answer(kind: str) -> None:
    inquiry, _ = INQUIRIES[kind]
    for other, answer in ANSWERS.items():
        if other == kind:
            assert read_answer(inquiry, answer) == answer
        else:
            with pytest.raises(sdk.BadAnswer, match="'it' does not fit"):
                read_answer(inquiry, answer)


@pytest.mark.parametrize(
    "url",
    ["", "pay.example/7", "/pay/7", "javascript:alert(1)", "https:pay", "https://", "https:///7",
     "http://pay.example/7", "http://10.0.0.7/", "http://localhost.example",
     "https://pay.example/ 7", "https://pay.example/\n7", "https://pay.example:x/", "https://[::1",
     "ftp://pay.example", "ftp://127.0.0.1/7"],
)  # fmt: skip
def test_a_link_that_is_no_address_of_a_web_page_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the link 'it' takes an address such as https://"):
        sdk.link("it", "Pay.", url)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "[::1]:8000", "localhost", "LOCALHOST:8000"])
def test_a_link_to_this_machine_needs_no_https(host: str) -> None:
    for url in (f"http://{host}/7", "https://pay.example/7?to=a%20b#c"):
        shown: Any = sdk.link("it", "Pay.", url).request.params
        assert shown.url == url


class Note(BaseModel):
    note: str = "none"


def test_a_form_that_needs_no_field_may_be_accepted_without_content() -> None:
    accepted = types.ElicitResult(action="accept")
    assert read_answer(sdk.Question("it", "A note?", Note), accepted) == Note()
    with pytest.raises(sdk.BadAnswer, match="name: Field required"):
        read_answer(who("it"), accepted)


def test_no_to_an_address_is_no() -> None:
    inquiry, _ = INQUIRIES["url"]
    with pytest.raises(sdk.Declined):
        read_answer(inquiry, types.ElicitResult(action="decline"))
    with pytest.raises(sdk.Cancelled):
        read_answer(inquiry, types.ElicitResult(action="cancel"))


@pytest.mark.parametrize("state", ["", "null", "[]", "{", '{"place": 5}', "frame.0"])
def test_a_genuine_state_of_another_shape_is_refused_like_a_forged_one(state: str) -> None:
    asked = types.InputRequiredResult(request_state=state)
    with pytest.raises(MCPError) as refusal:
        sdk.load_state(params(asked=asked), State)
    assert refusal.value.code == types.INVALID_PARAMS
    assert refusal.value.message == "Invalid or expired requestState"
    assert refusal.value.error.data == {"reason": "invalid_request_state"}
