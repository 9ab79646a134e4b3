"""The shared part of all stand-ins: questions, how they are sent, and how answers are read.

A `Question` is a form. An `Inquiry` asks for something else: a message from the client's model, its
folders, or that the user visits an address. Knows the SDK's types, `handler`, `current_request`,
`capabilities` and `writing`.

Sources: MCP 2026-07-28, elicitation (form and url mode; accept, decline, cancel), sampling, roots
and multi round-trip requests (`inputRequests`, `inputResponses`).
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

import mcp_types as types
from jsonschema import Draft202012Validator
from mcp import MCPError
from mcp.server.elicitation import render_elicitation_schema
from pydantic import BaseModel, PydanticUserError, ValidationError

from mrtr_options.sdk.capabilities import kind_of_request, kinds
from mrtr_options.sdk.current_request import by_hand, check_protected, request_here
from mrtr_options.sdk.handler import Context, JsonObject, first_error, refusal
from mrtr_options.sdk.reasons import Reason, data_of
from mrtr_options.sdk.writing import digest, write_model

_NO_PART_OF_A_URL = re.compile(r"""[\s\x00-\x20\x7f-\x9f<>"\\^`{|}]""")
"""The characters that no URL has."""

AnswerT = TypeVar("AnswerT", bound=BaseModel)
AnswerT_co = TypeVar("AnswerT_co", bound=BaseModel, covariant=True)


@dataclass(frozen=True, slots=True)
class Question(Generic[AnswerT_co]):
    """A question for something only the user knows, asked as a form.

    Attributes:
        key: Its key in `inputRequests`; the author's own, kept across versions of the code.
        message: What the user reads.
        answer: The model an accepted answer must fit; its JSON schema is the form.
        assumed: The answer to go on with where the client cannot be asked, or None.
        unasked: What to tell the caller where the client cannot be asked and nothing is assumed.

    Raises:
        TypeError: A form cannot have a field of the answer, or what is assumed is not such an
            answer.
    """

    key: str
    message: str
    answer: type[AnswerT_co]
    assumed: AnswerT_co | None = None
    unasked: str = ""

    def __post_init__(self) -> None:
        try:
            _schema(self.answer)
        except (TypeError, AttributeError, PydanticUserError) as error:
            raise TypeError(
                f"the question {self.key!r} cannot be asked as a form:"
                f" {' '.join(str(error).split())};"
                " its answer is a pydantic model whose fields are str, int, float, bool, date,"
                " datetime, a Literal of texts, or a list of such a Literal"
            ) from None
        assumed = cast("object", self.assumed)
        if not isinstance(assumed, BaseModel | None):
            raise TypeError(
                f"the question {self.key!r} assumes {assumed!r}, and no {self.answer.__name__}(...)"
            )


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[AnswerT_co]):
    """A question that is not a form. Made by `sampling`, `roots` or `link`.

    Attributes:
        key: The question's name, chosen by the author and kept across versions of the code.
        request: What goes to the client.
        answer: What its response must be.
        assumed: The answer to go on with where the client cannot be asked, or None.
        unasked: What to tell the caller where the client cannot be asked and nothing is assumed.

    Raises:
        ValueError: It asks to visit what is no address of a web page; see `link`.
    """

    key: str
    request: types.InputRequest
    answer: type[AnswerT_co]
    assumed: AnswerT_co | None = None
    unasked: str = ""

    def __post_init__(self) -> None:
        params = self.request.params
        if isinstance(params, types.ElicitRequestURLParams) and not _is_address(params.url):
            raise ValueError(
                f"the link {self.key!r} takes an address such as https://pay.example/7 (http://"
                f" only on this machine), not {params.url!r}"
            )


def _is_address(url: str) -> bool:
    """Return whether a browser can open this as it is written, and nobody on the way reads it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        return False
    if not host or _NO_PART_OF_A_URL.search(url) or parts.scheme not in ("http", "https"):
        return False
    with suppress(ValueError):
        return parts.scheme == "https" or ip_address(host).is_loopback
    return host == "localhost"


AnyQuestion = Question[AnswerT] | Inquiry[AnswerT]


def sampling(
    key: str,
    params: types.CreateMessageRequestParams,
    *,
    assumed: types.CreateMessageResult | None = None,
    unasked: str = "",
) -> Inquiry[types.CreateMessageResult]:
    """Ask the client's model for a message.

    Raises:
        ValueError: It offers the model tools, or the server's context: clients declare these apart.
    """
    if params.tools or params.tool_choice or params.include_context not in (None, "none"):
        raise ValueError(
            f"sampling {key!r} takes no tools, tool_choice or include_context; leave them out"
        )
    request = types.CreateMessageRequest(params=params)
    return Inquiry(key, request, types.CreateMessageResult, assumed, unasked)


def roots(
    key: str, *, assumed: types.ListRootsResult | None = None, unasked: str = ""
) -> Inquiry[types.ListRootsResult]:
    """Ask which folders the client works on."""
    return Inquiry(key, types.ListRootsRequest(), types.ListRootsResult, assumed, unasked)


def link(key: str, message: str, url: str, *, unasked: str = "") -> Inquiry[types.ElicitResult]:
    """Ask the user to visit an address (url mode).

    The answer is the user's consent alone: an accepted link is not a finished payment. What became
    of it is known to the server of that address: ask that before an effect that rests on it.

    Raises:
        ValueError: The address is not absolute, or it is neither https nor on this machine.
    """
    params = types.ElicitRequestURLParams(message=message, url=url)
    return Inquiry(key, types.ElicitRequest(params=params), types.ElicitResult, None, unasked)


class _Refused(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Declined(_Refused):
    """The user said no to the question with this key."""


class Cancelled(_Refused):
    """The user dismissed the question with this key without answering."""


class CannotAsk(Exception):
    """The client cannot be asked and the question assumes nothing. The text is for the caller."""


class BadAnswer(MCPError):
    """A refusal of an answer that does not fit its question: -32602, naming the question."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            types.INVALID_PARAMS,
            f"The answer to {key!r} does not fit the question: {why}",
            data_of(Reason.INVALID_ANSWER, question=key),
        )


def answered_differently(key: str, kind: type[MCPError] = MCPError) -> MCPError:
    """Make the refusal of an answer to a question that has another one."""
    known = f"The question {key!r} has been answered differently before, and that answer counts."
    return refusal(Reason.ANSWERED_DIFFERENTLY, known, kind=kind, question=key)


def question_of_bad_answer(error: MCPError) -> str | None:
    """Return the question whose answer an error is about, also one from a record; or None."""
    match error.error.data:
        case {"reason": "invalid_answer", "question": str(key)}:
            return key
        case _:
            return None


def kind_of(question: AnyQuestion[Any]) -> str:
    """Return the kind of a question; see `Kinds`."""
    return kind_of_request(question.request) if isinstance(question, Inquiry) else "form"


def assume_answer(question: AnyQuestion[AnswerT]) -> AnswerT:
    """Return what the question assumes, for a client that cannot be asked.

    Raises:
        CannotAsk: The question assumes nothing, so the call ends here.
    """
    if question.assumed is None:
        raise CannotAsk(question.unasked or f"This client cannot be asked for {question.key!r}.")
    return question.assumed


@lru_cache(maxsize=128)  # an author may make a model for each question
def _schema(answer: type[BaseModel]) -> JsonObject:
    return render_elicitation_schema(answer)


def request_for(question: AnyQuestion[BaseModel]) -> types.InputRequest:
    """Return the question as it goes to the client."""
    if isinstance(question, Inquiry):
        return question.request
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=question.message, requested_schema=_schema(question.answer)
        )
    )


def are_same(one: AnyQuestion[Any], other: AnyQuestion[Any]) -> bool:
    """Return whether two questions show the client the same."""
    return one is other or request_for(one) == request_for(other)


def response_to(question: AnyQuestion[Any]) -> type[BaseModel]:
    """Return the type of the client's response to a question."""
    return question.answer if isinstance(question, Inquiry) else types.ElicitResult


@lru_cache(maxsize=128)
def _validator(answer: type[BaseModel]) -> Any:
    return validator_of(_schema(answer))


def validator_of(schema: JsonObject) -> Any:
    """Return the validator of a form's content for this schema."""
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def keeps(schema: JsonObject | None, content: object) -> bool:
    """Return whether the content of a result keeps a schema; formats do not count."""
    validator: Any = Draft202012Validator(schema or {})
    return validator.is_valid(content)


def check_form(key: str, validator: Any, response: types.ElicitResult) -> JsonObject:
    """Hold the content of an accepted form against its schema, and leave out fields that are null.

    Raises:
        BadAnswer: It does not keep the schema; in words that do not show it back.
    """
    said = response.content or {}  # a client may send none where no field is required
    content: Any = {name: value for name, value in said.items() if value is not None}
    wrong = next(validator.iter_errors(content), None)
    if wrong is None:
        return content
    path = [str(part) for part in wrong.path]
    asked = wrong.validator_value
    match wrong.validator:
        case "required":
            path.append(next(name for name in asked if name not in wrong.instance))
            why = "Field required"
        case "enum" | "const" as kind:
            *others, last = [repr(each) for each in (asked if kind == "enum" else [asked])]
            why = f"Input should be {' or '.join([*filter(None, [', '.join(others)]), last])}"
        case "type":
            why = f"Input should be of the type {asked}"
        case other:
            why = f"Input should keep {other} {asked!r}"
    raise BadAnswer(key, ": ".join([*filter(None, [".".join(path)]), why]))


def read_answer(question: AnyQuestion[AnswerT], response: types.InputResponse) -> AnswerT:
    """Read the client's answer, checked against its question.

    Content that is sent with a decline or a cancel is ignored.

    Raises:
        Declined: The user said no.
        Cancelled: The user dismissed the question.
        BadAnswer: Not the answer to such a question, or content that does not fit.
    """
    expected = response_to(question)
    if not isinstance(response, expected):
        raise BadAnswer(question.key, f"it is not of the type {expected.__name__}")
    if isinstance(response, types.ElicitResult) and response.action == "decline":
        raise Declined(question.key)
    if isinstance(response, types.ElicitResult) and response.action == "cancel":
        raise Cancelled(question.key)
    if isinstance(question, Inquiry):
        return cast("AnswerT", response)
    assert isinstance(response, types.ElicitResult)
    try:
        return question.answer.model_validate(
            check_form(question.key, _validator(question.answer), response)
        )
    except ValidationError as error:
        raise BadAnswer(question.key, first_error(error)) from None


def ask(
    question: AnyQuestion[BaseModel], state: BaseModel | None = None
) -> types.InputRequiredResult:
    """End this round with a question, and hand the client the state for the next one.

    The next round brings the answer to this question only. Without a state every earlier answer is
    forgotten by then: two questions without one ask in turn until the client gives up.

    Raises:
        MCPError: -32603, nothing protects the state on this server: see `protect`.
        BadAnswer: With an answer of this round the state is too long to travel.
        ValueError: The next round would read another state: a validator changes it again, or JSON
            does not hold it, as with an infinite number, or a Decimal in a field of the type Any.
    """
    if state is not None:
        check_protected()
    return types.InputRequiredResult(
        input_requests={question.key: request_for(question)},
        request_state=None if state is None else check_fits(write_model(state)),
    )


StateT = TypeVar("StateT", bound=BaseModel)

MAX_STATE_BYTES = 10 * 1024
"""The longest state of a handler's; see `length_in_token`. A token of 16 KiB has room for it and
for the rest.
"""

SHORT_BYTES = 512
"""The length of an answer up to which it is not what makes a state too long."""


def load_state(params: types.InputResponseRequestParams, model: type[StateT]) -> StateT:
    """Read the state an earlier round handed out, or make a new one on the first round.

    Raises:
        MCPError: -32602, the state is genuine but not of this shape (an older version of the code);
            -32603, nothing protects it on this server: see `protect`.
    """
    if params.request_state is None:
        return model()
    check_protected()
    try:
        return model.model_validate_json(params.request_state)
    except ValidationError:
        raise invalid_state() from None


def check_length(key: str, answer: types.InputResponse, state: BaseModel) -> None:
    """Refuse a long answer with which a state is too long to travel.

    Args:
        key: Of the question.
        answer: The answer.
        state: With the answer.

    Raises:
        BadAnswer: It is.
    """
    if not is_long(answer):
        return
    if length_in_token(state.model_dump_json(exclude_defaults=True)) > MAX_STATE_BYTES:
        raise BadAnswer(key, "it is too long")


def check_fits(state: str) -> str:
    """Return a state that is about to travel, unless an answer of this round makes it too long.

    One that is too long for another reason is refused where it is sealed.

    Raises:
        BadAnswer: The state would fit without this round's longest answer.
    """
    excess = length_in_token(state) - MAX_STATE_BYTES
    this = request_here().latest
    if excess > 0 and this is not None and this.answers:
        answers = {key: each.model_dump_json() for key, each in this.answers.items()}
        longest = max(answers, key=lambda key: len(answers[key]))
        if is_long(this.answers[longest]) and length_in_token(answers[longest]) >= excess:
            raise BadAnswer(longest, "it is too long")
    return state


def is_long(answer: BaseModel) -> bool:
    """Return whether a shorter answer could make room in a state."""
    return len(answer.model_dump_json()) > SHORT_BYTES


def length_in_token(state: str) -> int:
    """Return how long a handler's state is in a token: within the guard's state, and its JSON."""
    return len(json.dumps(json.dumps(state)))


def invalid_state() -> MCPError:
    """Make the refusal of a state that the tool did not hand out."""
    # One text and one word for every state that is not the caller's: nothing is told of it.
    data = {"reason": Reason.INVALID_STATE}
    return MCPError(types.INVALID_PARAMS, "Invalid or expired requestState", data)


def answer_to(
    question: AnyQuestion[AnswerT],
    ctx: Context,
    params: types.InputResponseRequestParams,
) -> AnswerT | None:
    """Return this round's answer to a question, or None if it has to be asked.

    Where the client cannot be asked, what the question assumes takes the answer's place. The same
    question has the same answer, as often as it is asked for in a round.

    Raises:
        Declined, Cancelled, BadAnswer, CannotAsk: See there.
        KeyUsedTwice: A ValueError; another question has the key in this round. It names both
            places.
    """
    this = by_hand(params)
    this.uses.take("question", question.key, question, are_same)
    response = (params.input_responses or {}).get(question.key)
    if response is not None:
        this.answers[question.key] = response
        return read_answer(question, response)
    return None if kind_of(question) in kinds(ctx) else assume_answer(question)


# --- records -------------------------------------------------------------------------------------


def plain_response(response: types.InputResponse) -> JsonObject:
    """Return a response as a record has it."""
    content = response.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(response, types.ElicitResult) and response.action != "accept":
        content.pop("content", None)
    return content


def read_recorded(
    question: AnyQuestion[AnswerT], response: types.InputResponse | JsonObject
) -> AnswerT:
    """Check a response, or the record of one, against its question.

    Raises:
        Declined, Cancelled, BadAnswer: See `read_answer`.
    """
    model = response_to(question)
    try:
        answer = model.model_validate(response)
    except ValidationError:
        raise BadAnswer(question.key, f"it is not of the type {model.__name__}") from None
    return read_answer(question, cast("types.InputResponse", answer))


def digest_of_request(shown: types.InputRequest) -> str:
    """Tell apart what clients are shown."""
    return digest(shown.model_dump_json(by_alias=True))[:32]
