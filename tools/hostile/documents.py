"""XML and JSON that are made to cost the reader more than the sender."""

import base64
import concurrent.futures
import functools
import json

from attack import Scene, attack, refused
from wire import Answer, request

PREPARE, SUBMIT = "/v1/iso20022/prepare", "/v1/iso20022/submit"
NAMESPACE = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"
# What many large messages at once may take, beside what was taken before.
MOST_MEMORY = 1 << 30
MANY = 12


def inside(text: str) -> str:
    return f'<Document xmlns="{NAMESPACE}"><CstmrCdtTrfInitn>{text}</CstmrCdtTrfInitn></Document>'


def laughs() -> str:
    tenfold = [f"&l{n};" * 10 for n in range(9)]
    entities = "".join(f'<!ENTITY l{n} "{text}">' for n, text in enumerate(tenfold, 1))
    return f'<!DOCTYPE Document [<!ENTITY l0 "lol">{entities}]>{inside("&l9;")}'


def quadratic() -> str:
    text, body = "x" * 100_000, inside("&l;" * 100_000)
    return f'<!DOCTYPE Document [<!ENTITY l "{text}">]>{body}'


def attributes(count: int, name: str) -> str:
    text = " ".join(f'{name}{n}="u"' for n in range(count))
    return f"<a {text}/>"


def external(kind: str, place: str) -> str:
    return f'<!DOCTYPE Document [<!ENTITY e {kind} "{place}">]>{inside("&e;")}'


XML: list[tuple[str, str | bytes]] = [
    ("a billion laughs", laughs()),
    ("quadratic blow-up", quadratic()),
    ("an entity in a file", external("SYSTEM", "file:///etc/passwd")),
    ("an entity at an address", external("SYSTEM", "http://127.0.0.1:1/")),
    ("a parameter entity", f'<!DOCTYPE d [<!ENTITY % e SYSTEM "file:///etc/passwd"> %e;]>{inside("")}'),
    ("a document type elsewhere", f'<!DOCTYPE Document SYSTEM "http://127.0.0.1:1/d.dtd">{inside("")}'),
    ("an entity that nobody declared", inside("&undeclared;")),
    (
        "an instruction to include",
        inside('<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"/>'),
    ),
    ("elements 10,000 deep", "<a>" * 10_000 + "</a>" * 10_000),
    ("elements 10,000 deep that do not end", "<a>" * 10_000),
    ("1,000,000 attributes", attributes(1_000_000, "b")),
    ("100,000 namespaces", attributes(100_000, "xmlns:b")),
    ("4,000,000 elements", inside("<a/>" * 4_000_000)),
    ("a name of 8 MiB", f"<{'a' * (8 << 20)}/>"),
    ("a comment of 8 MiB", f"<!--{'a' * (8 << 20)}-->{inside('')}"),
    ("UTF-16", f'<?xml version="1.0" encoding="UTF-16"?>{inside("")}'.encode("utf-16")),
    ("UTF-16 without a mark", inside("").encode("utf-16-le")),
    ("UTF-32", inside("").encode("utf-32")),
    ("UTF-7", '<?xml version="1.0" encoding="UTF-7"?>+ADw-Document/+AD4-'),
    ("UTF-8 that is not", inside("").encode() + b"\xc0\xbc"),
    ("EBCDIC", f'<?xml version="1.0" encoding="IBM037"?>{inside("")}'.encode("cp037")),
    ("characters that XML has not", inside("\x00\x08&#0;&#xFFFF;")),
    ("XML 1.1", f'<?xml version="1.1"?>{inside("&#1;")}'),
    ("nothing", ""),
]


def unread(scene: Scene, answer: Answer) -> str:
    """That the message as a whole was refused, in the words of prepare."""
    refused(answer, "200")
    body = json.loads(answer.body)
    assert body["payments"] == [] and body["refused"]["code"] == "FF01", body
    return "FF01"


def read(message: str | bytes, scene: Scene) -> str:
    """To both who read messages."""
    data = message.encode() if isinstance(message, str) else message
    token = scene.network.tokens["alpha"]
    first = unread(scene, request(scene.gateway, "POST", PREPARE, token, data, "application/xml"))
    body = json.dumps({"message": base64.b64encode(data).decode(), "signed": []}).encode()
    second = request(scene.gateway, "POST", SUBMIT, token, body)
    refused(second, "200")
    report = second.body.decode()
    assert "<GrpSts>RJCT</GrpSts>" in report and "<Cd>FF01</Cd>" in report, report
    return f"{first}; RJCT FF01"


for sent, message in XML:
    attack(f"XML: {sent}")(functools.partial(read, message))


@attack(f"XML: {MANY} messages of 2,400,000 elements at once")
def many(scene: Scene) -> str:
    data, token = inside("<a/>" * 2_400_000).encode(), scene.network.tokens["alpha"]
    before = scene.network.resident_bytes()

    def one(_: int) -> Answer:
        return request(scene.gateway, "POST", PREPARE, token, data, "application/xml", within_s=60.0)

    with concurrent.futures.ThreadPoolExecutor(MANY) as senders:
        answers = list(senders.map(one, range(MANY)))
    for answer in answers:
        if answer.status == 200:
            unread(scene, answer)
        else:
            refused(answer, "503 AB10", "408 timeout")
    grown = scene.network.peak_bytes() - before
    assert grown <= MOST_MEMORY, f"they took {grown >> 20} MiB; {MOST_MEMORY >> 20} MiB are allowed"
    return f"{', '.join(sorted({str(answer) for answer in answers}))}, {max(grown, 0) >> 20} MiB"


def signed(position: str) -> str:
    return f'{{"message": "", "signed": [{{"position": {position}, "transaction": ""}}]}}'


JSON: list[tuple[str, str | bytes]] = [
    ("lists 10,000 deep", "[" * 10_000 + "]" * 10_000),
    ("lists 10,000 deep that do not end", "[" * 10_000),
    ("lists 10,000 deep in a field", '{"message": "", "signed": ' + "[" * 10_000 + "]" * 10_000 + "}"),
    ("objects 10,000 deep", '{"x":' * 10_000 + "0" + "}" * 10_000),
    ("a number of 10^7 digits", signed("9" * 10_000_000)),
    ("a number of 10^7 digits behind the point", signed("0." + "9" * 10_000_000)),
    ("an exponent of 10^9", signed("1e1000000000")),
    ("a negative position", signed("-1")),
    ("the position 2^64", signed(str(1 << 64))),
    ("a field twice", '{"message": "", "message": "", "signed": []}'),
    ("a position twice", '{"message": "", "signed": [{"position": 0, "position": 1, "transaction": ""}]}'),
    ("a field that nobody knows", '{"message": "", "signed": [], "__proto__": {}}'),
    ("half a surrogate", '{"message": "\\ud800", "signed": []}'),
    ("bytes that are not UTF-8", b'{"message": "\xff", "signed": []}'),
    ("two documents", '{"message": "", "signed": []} {"message": "", "signed": []}'),
    ("16 MiB of blanks", " " * (16 << 20)),
    ("a text that does not end", '{"message": "' + "A" * (16 << 20)),
    ("a message that is not base64", '{"message": "&lt;", "signed": []}'),
    ("NaN", signed("NaN")),
    ("nothing", ""),
]


def parsed(text: str | bytes, scene: Scene) -> str:
    """As JSON to whom reads it; and to those who do not."""
    data = text.encode() if isinstance(text, str) else text
    token = scene.network.tokens["alpha"]
    refusal = refused(request(scene.gateway, "POST", SUBMIT, token, data), "400 FF01")
    for path in (PREPARE, "/v1/transactions", "/v1/accounts"):
        refused(request(scene.gateway, "POST", path, token, data), "415 FF01")
    return f"{refusal}; elsewhere 415 FF01"


for sent, text in JSON:
    attack(f"JSON: {sent}")(functools.partial(parsed, text))


def decoded(data: bytes, content_type: str, scene: Scene) -> str:
    token = scene.network.tokens["alpha"]
    for path in ("/v1/transactions", "/v1/accounts"):
        refusal = refused(request(scene.gateway, "POST", path, token, data, content_type), "400 FF01")
    return refusal


BINARY = "application/octet-stream"
attack("a batch of 8 MiB of ones")(functools.partial(decoded, b"\xff" * (8 << 20), BINARY))
attack("a batch of noise")(functools.partial(decoded, bytes(range(256)) * 64, BINARY))
attack("a batch in text that is no hexadecimal")(functools.partial(decoded, b"zz" * 1000, "text/plain"))
attack("an empty batch of no bytes")(functools.partial(decoded, b"", BINARY))
