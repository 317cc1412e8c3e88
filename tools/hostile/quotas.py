"""A user who sends more than was agreed: 20 at once, then one a second."""

from attack import Scene, attack, refused
from network import BETA, BOB
from payments import message
from wire import Answer, Connection, head, request


def retry_after(answer: Answer) -> str:
    refused(answer, "429 quota")
    seconds = int(answer.headers["retry-after"])
    assert seconds >= 1, answer.headers
    return f"429 quota, Retry-After: {seconds}"


@attack("a message of more payments than the user's quota")
def message_beyond(scene: Scene) -> str:
    token, body = scene.network.tokens["beta-small"], message("MANY", 100).encode()
    answer = request(scene.gateway, "POST", "/v1/iso20022/prepare", token, body, "application/xml")
    refused(answer, "429 quota")
    # More than the user may ever send at once: to try it again later is no use.
    assert "retry-after" not in answer.headers, answer.headers
    return "429 quota, for good"


@attack("more requests than the user's quota")
def requests_beyond(scene: Scene) -> str:
    asking = head("GET", f"/v1/accounts/{BETA}/{BOB}", scene.network.tokens["beta-small"])
    with Connection(scene.gateway) as connection:
        for answered in range(100):
            connection.send(asking)
            answer = connection.answer()
            if answer.status != 200:
                # Another user of the same institution is let in.
                connection.send(head("GET", f"/v1/accounts/{BETA}/{BOB}", scene.network.tokens["beta"]))
                refused(connection.answer(), "200")
                return f"{retry_after(answer)} after {answered}"
    raise AssertionError("100 requests were answered; 20 were agreed")
