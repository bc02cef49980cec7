"""Encryption: TLS 1.3, with certificates made from the token, or the user's own.

Each peer makes the same certificate and private key from the token. All peers of a token show this certificate to each other,
and accept no other. So no keys need to be distributed, and a peer without the token gets no further than this. The keys that
encrypt are fresh with each connection: an attacker who records the traffic and gets the token later cannot read it. The
handshake of `security` follows inside, as it does without encryption. docs/deploy/operations.md has the limits.
"""

import datetime
import hmac
import importlib.util
import secrets
import ssl
import tempfile
from pathlib import Path

from halohop.errors import InputError
from halohop.transport.security import ENCRYPT_VARIABLE, Certificate, Token

_PURPOSE = b"halohop: private key of all peers, Ed25519, 1"


def seal_of(token: Token | None, *, server: bool) -> ssl.SSLContext | None:
    """What encrypts the connections of a server, or of a client; None if the token does not ask for it.

    Raises:
        InputError: the means to encrypt are not installed, or a file of a certificate cannot be used.
    """
    if token is None or not token.encrypt:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # who may show a certificate of this authority may be any peer
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0  # no session is resumed
    if token.certificate is not None:
        _load(context, token.certificate)
    else:
        _derive(context, token.key)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    try:
        context.load_cert_chain(certificate.chain, certificate.key)
        context.load_verify_locations(certificate.authority)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"{certificate} cannot be used: {error}; all three are PEM files, and the key belongs to the first certificate"
        ) from error


def _derive(context: ssl.SSLContext, token_key: bytes) -> None:
    """Gives the context the certificate and private key that follow from a token, and trust in that certificate alone."""
    if importlib.util.find_spec("cryptography") is None:
        raise InputError(f"encryption needs one more package: pip install 'halohop[tls]', or drop {ENCRYPT_VARIABLE}")
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(hmac.digest(token_key, _PURPOSE, "sha256"))
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "halohop")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), serial_number=1)
        .not_valid_before(datetime.datetime(2000, 1, 1))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, None)  # Ed25519 signs alike each time, so all peers arrive at the same certificate
        .public_bytes(serialization.Encoding.PEM)
    )
    password = secrets.token_bytes(32)  # OpenSSL reads keys from files only; this one is encrypted
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password)
    )
    with tempfile.TemporaryDirectory(prefix="halohop-") as folder:
        chain = Path(folder) / "peer.pem"
        chain.write_bytes(certificate + private)
        context.load_cert_chain(chain, password=password)
    context.load_verify_locations(cadata=certificate.decode())
