"""Tests of the codecs: only a sealed payload can be unsealed; the ring of keys; the bounds."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from itsdangerous import Signer
from mcp.server.request_state import InvalidRequestState

from mrtr_options.sdk import protection
from mrtr_options.sdk.protection import KEYS_VARIABLE, MAX_TOKEN_BYTES, make_codec

OLD, NEW, OTHER = (hashlib.sha256(name).hexdigest().encode() for name in (b"old", b"new", b"other"))
both_codecs = pytest.mark.parametrize("sealed", [False, True], ids=["signed", "sealed"])
CODECS = {sealed: make_codec([OLD], sealed=sealed) for sealed in (False, True)}


@both_codecs
@given(payload=st.binary(max_size=2000).filter(lambda payload: payload[:3] != b"at:"))
def test_what_was_sealed_comes_back(sealed: bool, payload: bytes) -> None:
    codec = CODECS[sealed]
    token = codec.seal(payload)
    assert codec.unseal(token) == payload
    assert protection.read_without_key(token) == (None if sealed else payload)


@both_codecs
@given(
    payload=st.binary(max_size=50),
    place=st.integers(min_value=0, max_value=10_000),
    instead=st.text(max_size=5),
    width=st.integers(min_value=0, max_value=5),
)
@pytest.mark.slow
def test_no_changed_token_is_good(
    sealed: bool, payload: bytes, place: int, instead: str, width: int
) -> None:
    """Replace any stretch of a token by any text: a flip, a cut, an insertion."""
    codec = CODECS[sealed]
    token = codec.seal(payload)
    place %= len(token) + 1
    changed = token[:place] + instead + token[place + width :]
    if changed == token:
        return
    with pytest.raises(InvalidRequestState):
        codec.unseal(changed)


def test_tokens_are_equal_to_those_of_the_release_before() -> None:
    payload = '{"place":"Springfield, Illinois","degrees":"22 °C"}'.encode()
    token = (
        "s1.eyJwbGFjZSI6IlNwcmluZ2ZpZWxkLCBJbGxpbm9pcyIsImRlZ3JlZXMiOiIyMiDCsEMifQ"
        ".5jFAs5G9gzG7Rs7H7CiNMmhxH6yrZjrGR0rISdG8a-I"
    )
    codec = make_codec([NEW, OLD], sealed=False)
    assert codec.seal(payload) == token
    assert codec.unseal(token) == payload


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("ZdObV8-XtrqEyBr7rLaJfirfSZR7gdN_We6qsB6J-KM=", id="padded"),
        pytest.param("ZdObV8-XtrqEyBr7rLaJfirfSZR7gdN_We6qsB6J-KN", id="unused-bits"),
        pytest.param("ZdObV8+XtrqEyBr7rLaJfirfSZR7gdN_We6qsB6J+KM", id="plus"),
        pytest.param("ZdObV8-XtrqEyBr7rLaJfirfSZR7gdN/We6qsB6J-KM", id="slash"),
        pytest.param("ZdObV8-XtrqEyBr7rLaJ!!!!firfSZR7gdN_We6qsB6J-KM", id="other-characters"),
    ],
)
def test_a_signature_has_one_spelling(other: str) -> None:
    genuine = "ZdObV8-XtrqEyBr7rLaJfirfSZR7gdN_We6qsB6J-KM"
    assert CODECS[False].seal(b"state1") == f"s1.c3RhdGUx.{genuine}"
    ring = [hmac.digest(OLD, b"mrtr-options/request-state", "sha256")]
    signer = Signer(ring, key_derivation="none", digest_method=hashlib.sha256)
    assert signer.validate(f"c3RhdGUx.{other}")  # the library takes it
    with pytest.raises(InvalidRequestState):
        CODECS[False].unseal(f"s1.c3RhdGUx.{other}")


def test_a_signed_token_is_no_sealed_one_nor_the_other_way_round() -> None:
    for sealed in (False, True):
        with pytest.raises(InvalidRequestState):
            CODECS[sealed].unseal(CODECS[not sealed].seal(b"state"))


@both_codecs
def test_the_first_key_of_the_ring_seals_and_every_key_unseals(sealed: bool) -> None:
    both = make_codec([NEW, OLD], sealed=sealed)
    only_old = make_codec([OLD], sealed=sealed)
    only_new = make_codec([NEW], sealed=sealed)
    token = both.seal(b"state")
    assert only_new.unseal(token) == b"state"
    with pytest.raises(InvalidRequestState):
        only_old.unseal(token)
    assert both.unseal(only_old.seal(b"state")) == b"state"
    assert both.unseal(only_new.seal(b"state")) == b"state"
    with pytest.raises(InvalidRequestState):
        both.unseal(make_codec([OTHER], sealed=sealed).seal(b"state"))


@both_codecs
def test_a_state_too_long_to_be_accepted_is_not_handed_out(sealed: bool) -> None:
    codec = CODECS[sealed]
    with pytest.raises(ValueError, match=str(MAX_TOKEN_BYTES)):
        codec.seal(b"x" * MAX_TOKEN_BYTES)
    size = (MAX_TOKEN_BYTES - 100) * 3 // 4  # base64, and some room for signature and nonce
    token = codec.seal(b"x" * size)
    assert MAX_TOKEN_BYTES - 101 < len(token) <= MAX_TOKEN_BYTES
    assert codec.unseal(token) == b"x" * size


def test_a_token_over_the_bound_is_refused_though_it_is_genuine() -> None:
    token = protection.SignedCodec([OLD]).seal(b"x" * MAX_TOKEN_BYTES)
    with pytest.raises(InvalidRequestState, match="too long"):
        CODECS[False].unseal(token)


@pytest.mark.parametrize(
    ("text", "ring"), [("", None), (f"{NEW.decode()} , {OLD.decode()}", [NEW, OLD])]
)
def test_the_ring_in_the_environment_keeps_its_order(
    text: str, ring: list[bytes] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, text)
    assert protection.keys_from_environment() == ring


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("short", f"key 1 of {KEYS_VARIABLE} has 5 bytes, and needs 32; make one with: "),
        (f"{OLD.decode()},{NEW.decode()[:62]}", f"key 2 of {KEYS_VARIABLE} has 31 bytes"),
        (f"{OLD.decode()},{OLD.decode()}", f"{KEYS_VARIABLE} names a key twice"),
        ("o!" * 16, f"key 1 of {KEYS_VARIABLE} is made of 2 different bytes, and needs 16; "),
        ("o" * 32, f"key 1 of {KEYS_VARIABLE} has 24 bytes when its hex or base64 is read"),
    ],
)
def test_a_ring_that_cannot_be_used_is_one_clear_line_without_the_key(
    keys: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, keys)
    with pytest.raises(protection.BadKeys) as bad:
        protection.keys_from_environment()
    assert complaint in str(bad.value)
    assert "\n" not in str(bad.value)
    assert not any(key in str(bad.value) for key in keys.split(",") if key.strip())


def test_a_key_may_be_hex_base64_or_bytes() -> None:
    secret = hashlib.sha256(b"key").digest()
    written = [
        secret,
        secret.hex().encode(),
        base64.b64encode(secret),
        base64.urlsafe_b64encode(secret),
    ]
    for key in (*written, protection.new_key()):
        assert protection.check_keys([key]) == [key]


@both_codecs
@given(token=st.text(max_size=300) | st.text("sv1.AQaz09-_=").map("s1.".__add__))
@example(token="s1.YQ.é")
@example(token="s1.YQ.\ud800")  # a lone surrogate cannot be encoded; JSON can carry one
@example(token="v1.\ud800")
def test_no_made_up_token_is_good(sealed: bool, token: str) -> None:
    with pytest.raises(InvalidRequestState):
        CODECS[sealed].unseal(token)


@both_codecs
def test_no_other_last_character_is_good(sealed: bool) -> None:
    """Change the last character, which has unused bits in base64."""
    token = CODECS[sealed].seal(b"state")
    for number in range(128):
        if chr(number) != token[-1]:
            with pytest.raises(InvalidRequestState):
                CODECS[sealed].unseal(token[:-1] + chr(number))


@pytest.mark.parametrize(
    ("ring", "complaint"),
    [
        ([], "at least one key"),
        *(([key], "make one with") for key in (b"\n" * 32, b"\r\n" * 32, b"\0" * 32, b"")),
    ],
)
def test_no_key_and_a_key_of_blanks_are_refused_everywhere(
    ring: list[bytes], complaint: str
) -> None:
    with pytest.raises(protection.BadKeys, match=complaint):
        protection.check_keys(ring)
