"""HTTP: requests with a token, answers of bounded length, problem details as errors, and retries of what is safe."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from .errors import (
    BadRequestError,
    ForbiddenError,
    NotFoundError,
    ProblemError,
    ProtocolError,
    QuotaError,
    ServerError,
    TransportError,
    UnauthorizedError,
    UnavailableError,
    UnreachedError,
    UntrustedGatewayError,
)

M = TypeVar("M", bound=BaseModel)

MAX_ANSWER_BYTES = 64 << 20
"""The longest answer that is read."""
_MAX_PROBLEM_BYTES = 64 << 10
_LONGEST_WAIT_S = 10.0
_LONGEST_CONNECT_S = 5.0

_ERRORS: dict[int, type[ProblemError]] = {
    **dict.fromkeys((400, 405, 408, 413, 415, 422), BadRequestError),
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    429: QuotaError,
    **dict.fromkeys((502, 503, 504), UnavailableError),
}


class _ProblemDetails(BaseModel):
    """RFC 9457, with the member `code`."""

    title: str
    detail: str
    code: str


@dataclass(frozen=True)
class Body:
    """What a request carries."""

    content: bytes
    kind: str
    """Its media type."""


class Listening:
    """An answer that has no end, as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def parts(self) -> Iterator[bytes]:
        """Its bytes, in the parts in which they come."""
        return self._response.iter_raw()

    def break_off(self) -> None:
        """Ends it, also for a thread that waits for its next part."""
        stream = self._response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            with contextlib.suppress(OSError):
                # TLS's own would take the connection's state from the thread that reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Transport:
    """One gateway and one user of it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        ca: str | os.PathLike[str] | None,
        certificate: tuple[str, str] | None,
        timeout_s: float,
        retries: int,
    ) -> None:
        base = httpx.URL(url)
        if base.scheme not in ("https", "http") or not base.host:
            raise ValueError(f"{url!r} is no URL of a gateway: https://HOST:PORT is wanted")
        if base.scheme == "http" and base.host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(f"{url!r} would send the token in clear text: use https, or a gateway on this machine")
        headers = {"accept-encoding": "identity", "user-agent": "tallystick-python"}
        if token is not None:
            headers["authorization"] = f"Bearer {token.strip()}"
        self.retries = retries
        """How often a request that is safe to repeat is sent again."""
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _LONGEST_CONNECT_S))
        self._client = httpx.Client(base_url=base, headers=headers, timeout=timeout, verify=_tls(base, ca, certificate))

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def get(self, path: str, kind: type[M], query: Mapping[str, str | int] | None = None, also: int = 200) -> M:
        """What the gateway answers to a question, as JSON; `also` is another status that answers it."""
        return read(kind, self.send("GET", path, query=query, also=also))

    def post(
        self, path: str, kind: type[M], body: Body, headers: Mapping[str, str] | None = None, *, safe: bool = False
    ) -> M:
        """What the gateway answers to what is handed in, as JSON; `safe` where that changes nothing."""
        return read(kind, self.send("POST", path, body=body, headers=headers, safe=safe))

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        also: int = 200,
        safe: bool = False,
    ) -> bytes:
        """The bytes of the answer.

        A `GET`, and what is said to be `safe`, is sent again when it fails on the way or the gateway cannot answer now.
        Anything else is sent again only when it did not reach the gateway, or the gateway says when to send it again.

        Raises:
            ProblemError: the gateway answers with problem details.
            TransportError: it does not answer.
            ProtocolError: its answer is not what the interface promises.
        """
        may_repeat = safe or method == "GET"
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                return self._once(method, path, query, body, headers, also)
            except UnavailableError as error:
                if last or (error.retry_after is None and not may_repeat) or not _is_soon(error.retry_after):
                    raise
                wait = error.retry_after
            except QuotaError as error:
                if last or error.retry_after is None or not _is_soon(error.retry_after):
                    raise
                wait = error.retry_after
            except UntrustedGatewayError:
                raise
            except UnreachedError:
                if last:
                    raise
                wait = None
            except TransportError:
                if last or not may_repeat:
                    raise
                wait = None
            time.sleep(wait if wait is not None else 0.1 * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 - keeps no secret
        raise AssertionError("the last attempt returns or raises")

    def _once(  # noqa: PLR0917 - what `send` was given
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        body: Body | None,
        headers: Mapping[str, str] | None,
        also: int,
    ) -> bytes:
        every = dict(headers or {})
        if body is not None:
            every["content-type"] = body.kind
        content = None if body is None else body.content
        request = self._client.build_request(method, path, params=query, content=content, headers=every)
        with self._answer(request, also) as response:
            return _bounded(response, MAX_ANSWER_BYTES)

    @contextlib.contextmanager
    def listen(
        self, path: str, kind: str, headers: Mapping[str, str], silence_s: float, query: Mapping[str, int] | None = None
    ) -> Iterator[Listening]:
        """An answer of the media type `kind` that comes bit by bit; it has failed when nothing comes for `silence_s`.

        Raises:
            ProblemError: the gateway answers with problem details.
            TransportError: it does not answer, or the answer breaks off.
            ProtocolError: its answer is of another media type.
        """
        timeout = httpx.Timeout(silence_s, connect=_LONGEST_CONNECT_S)
        headers = {"accept": kind, **headers}
        request = self._client.build_request("GET", path, params=query, headers=headers, timeout=timeout)
        with self._answer(request) as response:
            told = response.headers.get("content-type", "")
            if told.split(";")[0].strip().lower() != kind:
                raise ProtocolError(f"GET {path}: the answer is {told[:100]!r}, {kind} is wanted")
            yield Listening(response)

    @contextlib.contextmanager
    def _answer(self, request: httpx.Request, also: int = 200) -> Iterator[httpx.Response]:
        """An answer whose bytes are still to be read."""
        try:
            with contextlib.closing(self._client.send(request, stream=True)) as response:
                if response.status_code not in (200, also):
                    raise _problem(response, _bounded(response, _MAX_PROBLEM_BYTES))
                yield response
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            kind = UntrustedGatewayError if _is_about_certificates(error) else UnreachedError
            raise kind(f"cannot reach {self._client.base_url}: {error}") from error
        except httpx.HTTPError as error:
            asked = f"{request.method} {request.url.path}"
            text = f"{asked}: no answer from {self._client.base_url}: {error or type(error).__name__}"
            raise TransportError(text) from error


def _tls(
    url: httpx.URL, ca: str | os.PathLike[str] | None, certificate: tuple[str, str] | None
) -> ssl.SSLContext | bool:
    if url.scheme != "https":
        return True
    if ca is not None and not Path(ca).is_file():
        raise ValueError(f"{ca} is no file: the certificates of the authorities are wanted, in PEM form")
    context = ssl.create_default_context(cafile=None if ca is None else os.fspath(ca))
    if ca is not None:
        # Authorities of a network's own need not make certificates by all of RFC 5280 (an authority key identifier).
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def _is_about_certificates(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_soon(wait: float | None) -> bool:
    return wait is None or wait <= _LONGEST_WAIT_S


def _bounded(response: httpx.Response, limit: int) -> bytes:
    data = bytearray()
    for part in response.iter_raw():
        data += part
        if len(data) > limit:
            raise ProtocolError(f"the answer is longer than {limit} bytes")
    return bytes(data)


def _problem(response: httpx.Response, data: bytes) -> ProblemError:
    status = response.status_code
    wait = _retry_after(response)
    kind = _ERRORS.get(status, ServerError)
    try:
        problem = _ProblemDetails.model_validate_json(data)
    except ValidationError:
        # A proxy on the way writes something else.
        return kind(status, "http", response.reason_phrase, data[:200].decode("utf-8", "replace"), wait)
    return kind(status, problem.code, problem.title, problem.detail, wait)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds; the form with a date (RFC 9110, section 10.2.3) is not what gateways write."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def read(kind: type[M], data: bytes) -> M:
    """What the JSON of an answer says.

    Raises:
        ProtocolError: it is not what the interface promises.
    """
    try:
        return kind.model_validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ProtocolError(f"the gateway's answer is no {kind.__name__}: {where}: {first['msg']}") from error
