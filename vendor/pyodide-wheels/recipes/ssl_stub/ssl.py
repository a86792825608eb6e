"""A stand-in for `ssl` on Pyodide 0.29, whose standard library has none: enough to import httpcore2, httpx2, urllib3.

No connection can be made with it (there are no sockets either): the browser's fetch does TLS.
"""

import enum

OPENSSL_VERSION = "no OpenSSL"
OPENSSL_VERSION_NUMBER = 0x30000000
OPENSSL_VERSION_INFO = (3, 0, 0, 0, 0)
HAS_SNI = HAS_ALPN = HAS_NEVER_CHECK_COMMON_NAME = HAS_TLSv1_2 = HAS_TLSv1_3 = True


class SSLError(OSError):
    pass


class SSLZeroReturnError(SSLError):
    pass


class SSLWantReadError(SSLError):
    pass


class SSLWantWriteError(SSLError):
    pass


class SSLSyscallError(SSLError):
    pass


class SSLEOFError(SSLError):
    pass


class SSLCertVerificationError(SSLError, ValueError):
    pass


CertificateError = SSLCertVerificationError


class VerifyMode(enum.IntEnum):
    CERT_NONE = 0
    CERT_OPTIONAL = 1
    CERT_REQUIRED = 2


class TLSVersion(enum.IntEnum):
    MINIMUM_SUPPORTED = -2
    SSLv3 = 768
    TLSv1 = 769
    TLSv1_1 = 770
    TLSv1_2 = 771
    TLSv1_3 = 772
    MAXIMUM_SUPPORTED = -1


class Purpose(enum.Enum):
    SERVER_AUTH = 1
    CLIENT_AUTH = 2


class VerifyFlags(enum.IntFlag):
    VERIFY_DEFAULT = 0
    VERIFY_CRL_CHECK_LEAF = 4
    VERIFY_CRL_CHECK_CHAIN = 12
    VERIFY_X509_STRICT = 32
    VERIFY_X509_TRUSTED_FIRST = 32768
    VERIFY_X509_PARTIAL_CHAIN = 524288


class Options(enum.IntFlag):
    OP_ALL = 0x80000050
    OP_NO_COMPRESSION = 0x20000
    OP_NO_TICKET = 0x4000
    OP_NO_SSLv2 = 0
    OP_NO_SSLv3 = 0x2000000
    OP_NO_TLSv1 = 0x4000000
    OP_NO_TLSv1_1 = 0x10000000
    OP_NO_TLSv1_2 = 0x8000000
    OP_NO_TLSv1_3 = 0x20000000


globals().update({m.name: m for e in (VerifyMode, VerifyFlags, Options) for m in e})
OP_NO_SSLv2 = Options(0)
VERIFY_DEFAULT = VerifyFlags(0)


class _SSLMethod(enum.IntEnum):
    PROTOCOL_TLS = 2
    PROTOCOL_TLSv1 = 3
    PROTOCOL_TLSv1_1 = 4
    PROTOCOL_TLSv1_2 = 5
    PROTOCOL_TLS_CLIENT = 16
    PROTOCOL_TLS_SERVER = 17


globals().update({m.name: m for m in _SSLMethod})
PROTOCOL_SSLv23 = _SSLMethod.PROTOCOL_TLS
PROTOCOL_TLS_CLIENT = _SSLMethod.PROTOCOL_TLS_CLIENT
SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_SYSCALL, SSL_ERROR_ZERO_RETURN, SSL_ERROR_EOF = 2, 3, 5, 6, 8


class SSLContext:
    protocol = PROTOCOL_TLS_CLIENT
    verify_mode = VerifyMode.CERT_REQUIRED
    check_hostname = True
    verify_flags = VerifyFlags.VERIFY_X509_TRUSTED_FIRST
    options = Options(0)
    minimum_version = TLSVersion.TLSv1_2
    maximum_version = TLSVersion.MAXIMUM_SUPPORTED
    post_handshake_auth = False
    keylog_filename = None

    def __init__(self, protocol=PROTOCOL_TLS_CLIENT):
        pass

    def load_default_certs(self, purpose=None):
        pass

    load_verify_locations = load_cert_chain = set_alpn_protocols = set_ciphers = set_default_verify_paths = (
        lambda self, *a, **k: None
    )

    def wrap_socket(self, *a, **k):
        raise SSLError("no TLS sockets here")

    wrap_bio = wrap_socket


class SSLSocket:
    pass


class SSLObject:
    pass


class MemoryBIO:
    pass


class SSLSession:
    pass


class AlertDescription(enum.IntEnum):
    ALERT_DESCRIPTION_CLOSE_NOTIFY = 0


def get_default_verify_paths():
    return None


def get_server_certificate(*a, **k):
    raise SSLError("no TLS sockets here")


def create_default_context(*a, **k):
    return SSLContext()


_create_unverified_context = _create_stdlib_context = _create_default_https_context = create_default_context


def match_hostname(cert, hostname):
    raise CertificateError("no TLS here")
