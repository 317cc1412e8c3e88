"""What an attack is: something that is sent, and the refusal that it must get."""

import dataclasses
from collections.abc import Callable

from network import Network
from payments import Payments
from wire import Answer, Gateway


@dataclasses.dataclass(frozen=True)
class Scene:
    """What an attacker finds: a network on which somebody pays."""

    network: Network
    payments: Payments

    @property
    def gateway(self) -> Gateway:
        return self.network.gateway


# Returns the refusal in words; raises AssertionError when it is another than the right one.
Run = Callable[[Scene], str]


@dataclasses.dataclass(frozen=True)
class Attack:
    sent: str
    run: Run


ATTACKS: list[Attack] = []


def attack(sent: str) -> Callable[[Run], Run]:
    """Has the function run, after those before it."""

    def register(run: Run) -> Run:
        ATTACKS.append(Attack(sent, run))
        return run

    return register


def refused(answer: Answer, *wanted: str) -> str:
    """That the answer is one of those, each a status with its problem code."""
    assert str(answer) in wanted, f"{answer} in place of {' or '.join(wanted)}: {answer.body[:200]!r}"
    return str(answer)


def ended(how: str, *wanted: str) -> str:
    """That the connection ended in one of those ways."""
    assert how in wanted, f"{how} in place of {' or '.join(wanted)}"
    return how
