import os

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
    file.chmod(0o600)
    assert load_token(file).key == TOKEN.key
    assert load_token(env={"HALOHOP_TOKEN": "0123456789abcdef\n"}).key == TOKEN.key
    assert load_token(file, env={"HALOHOP_TOKEN": "another that is ignored"}).key == TOKEN.key
    assert load_token(env={}) is None
    assert load_token(env={"HALOHOP_TOKEN": " "}) is None
    monkeypatch.setenv("HALOHOP_TOKEN", "0123456789abcdef")
    assert load_token().key == TOKEN.key
    with pytest.raises(InputError, match=r"cannot read the token file .*absent"):
        load_token(tmp_path / "absent")


@pytest.mark.parametrize(
    ("mode", "verb"), [(0o644, "read"), (0o640, "read"), (0o604, "read"), (0o620, "write"), (0o602, "write"), (0o666, "read")]
)
def test_a_token_file_that_others_can_use_is_refused(tmp_path, mode, verb):
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    file.chmod(mode)
    link = tmp_path / "link"
    link.symlink_to(file)
    for path in (file, link, str(file)):
        with pytest.raises(InputError, match=rf"others can {verb} the token in \S+ \(mode {mode:o}\); .*chmod 600"):
            load_token(path)
    for mode in (0o600, 0o400, 0o711):
        file.chmod(mode)
        assert load_token(link).key == TOKEN.key


@pytest.mark.parametrize(("mode", "verb"), [(0o644, "read"), (0o640, "read"), (0o620, "write"), (0o602, "write")])
def test_a_private_key_that_others_can_use_is_refused(tmp_path, mode, verb):
    key = tmp_path / "host.key"
    key.touch()
    env = {"HALOHOP_CERTIFICATE": "host.pem", "HALOHOP_KEY": str(key), "HALOHOP_AUTHORITY": "authority.pem"}
    key.chmod(0o600)
    assert load_token(env=env).certificate.key == key
    key.chmod(mode)
    with pytest.raises(InputError, match=rf"others can {verb} the private key in \S+ \(mode {mode:o}\); .*chmod 600"):
        load_token(env=env)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away, which only root may")
def test_a_group_may_read_a_file_of_root(tmp_path, monkeypatch):
    """As in a pod with fsGroup, where a mounted Secret is a link through a folder to a file of root."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "token").symlink_to("..data/token")
    file = tmp_path / "..2026" / "token"
    file.write_text("0123456789abcdef")
    file.chmod(0o440)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert load_token(tmp_path / "token").key == TOKEN.key
    for mode in (0o644, 0o460, 0o402):
        file.chmod(mode)
        with pytest.raises(InputError, match="others can"):
            load_token(tmp_path / "token")
    file.chmod(0o440)
    os.chown(file, 1, -1)  # of another user
    with pytest.raises(InputError, match="others can read"):
        load_token(tmp_path / "token")


def test_a_token_may_come_from_a_pipe(tmp_path):
    """As of ``--token-file <(pass show token)``."""
    reading, writing = os.pipe()
    os.write(writing, b"0123456789abcdef\n")
    os.close(writing)
    assert load_token(f"/dev/fd/{reading}").key == TOKEN.key
    os.close(reading)


def test_an_error_names_the_file_whose_token_is_too_short(tmp_path):
    file = tmp_path / "token"
    file.write_text("short")
    file.chmod(0o600)
    with pytest.raises(InputError, match=rf"{file}: a token of 5 bytes"):
        load_token(file)


def test_whether_to_encrypt(tmp_path):
    env = {"HALOHOP_TOKEN": "0123456789abcdef"}
    assert not load_token(env=env).encrypt
    assert load_token(env=env, encrypt=True).encrypt
    for text, on in (("1", True), ("true", True), ("On", True), ("0", False), ("", False), ("no", False)):
        assert load_token(env=env | {"HALOHOP_ENCRYPT": text}).encrypt is on
    assert load_token(env=env | {"HALOHOP_ENCRYPT": "0"}, encrypt=True).encrypt
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    file.chmod(0o600)
    assert load_token(file, env={"HALOHOP_ENCRYPT": "1"}).encrypt
    with pytest.raises(InputError, match="'maybe' is neither 1 nor 0"):
        load_token(env=env | {"HALOHOP_ENCRYPT": "maybe"})
    with pytest.raises(InputError, match="needs a token"):
        load_token(env={"HALOHOP_ENCRYPT": "1"})
