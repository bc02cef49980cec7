import pytest

from halohop.errors import InputError
from halohop.transport.security import Token, load_token

TOKEN = Token("0123456789abcdef")


@pytest.mark.parametrize("secret", ["", "short", b"fifteen bytes!!"])
def test_tokens_that_can_be_guessed(secret):
    with pytest.raises(InputError, match=r"secrets\.token_hex"):
        Token(secret)


def test_load_token(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("  0123456789abcdef\n")
    assert load_token(file).key == TOKEN.key
    assert load_token(env={"HALOHOP_TOKEN": "0123456789abcdef\n"}).key == TOKEN.key
    assert load_token(file, env={"HALOHOP_TOKEN": "another that is ignored"}).key == TOKEN.key
    assert load_token(env={}) is None
    assert load_token(env={"HALOHOP_TOKEN": " "}) is None
    monkeypatch.setenv("HALOHOP_TOKEN", "0123456789abcdef")
    assert load_token().key == TOKEN.key
    with pytest.raises(InputError, match=r"cannot read the token file .*absent"):
        load_token(tmp_path / "absent")


def test_whether_to_encrypt(tmp_path):
    env = {"HALOHOP_TOKEN": "0123456789abcdef"}
    assert not load_token(env=env).encrypt
    assert load_token(env=env, encrypt=True).encrypt
    for text, on in (("1", True), ("true", True), ("On", True), ("0", False), ("", False), ("no", False)):
        assert load_token(env=env | {"HALOHOP_ENCRYPT": text}).encrypt is on
    assert load_token(env=env | {"HALOHOP_ENCRYPT": "0"}, encrypt=True).encrypt
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    assert load_token(file, env={"HALOHOP_ENCRYPT": "1"}).encrypt
    with pytest.raises(InputError, match="'maybe' is neither 1 nor 0"):
        load_token(env=env | {"HALOHOP_ENCRYPT": "maybe"})
    with pytest.raises(InputError, match="needs a token"):
        load_token(env={"HALOHOP_ENCRYPT": "1"})
