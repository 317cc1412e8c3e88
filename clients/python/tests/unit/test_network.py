"""What names mean in a network, and that the refusals are the ledger's."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from evidence import NETWORK, key

from tallystick import Account, Institution, Network, Refusal, models
from tallystick.errors import DecodeError, UnknownNameError

LEDGER = Path(__file__).resolve().parents[4] / "crates" / "ledger" / "src"


def test_accounts_without_an_alias_have_names() -> None:
    assert NETWORK.account_number("7") == 7
    assert NETWORK.account_number("issuance:EUR") == 1 << 31
    assert NETWORK.account_number("own:DE000TALLY17") == 1 << 31 | 1 << 16 | 1
    assert NETWORK.account_number("settlement:EUR:BANKFRPP") == 1 << 31 | 4
    for alias in ("DE20999000010000000001", "own", "own:EUR:X", "other:EUR", "", "\u0667"):
        assert NETWORK.account_number(alias) is None
    for wrong in ("own:XXX", "settlement:EUR:NOBODY"):
        with pytest.raises(UnknownNameError):
            NETWORK.account_number(wrong)


def test_the_head_office_may_be_left_out() -> None:
    assert NETWORK.institution("BANKDEFFXXX").participant == NETWORK.institution("BANKDEFF").participant == 1
    for wrong in ("BANKDEFF123", "XXX", ""):
        with pytest.raises(UnknownNameError):
            NETWORK.institution(wrong)


def test_texts_name_accounts() -> None:
    assert Account.of("BANKDEFF/own:EUR") == Account("BANKDEFF", "own:EUR")
    assert Account.of(Account("BANKDEFF", "own:EUR")) == Account("BANKDEFF", "own:EUR")
    assert str(Account("BANKDEFF", "a/b")) == "BANKDEFF/a/b"
    assert Account.of("BANKDEFF/a/b").name == "a/b"
    for wrong in ("BANKDEFF", "/7", "BANKDEFF/"):
        with pytest.raises(ValueError, match="BIC/NAME"):
            Account.of(wrong)


def test_a_network_only_grows() -> None:
    more = (*NETWORK.institutions, Institution(4, "BANKITMM", key(4).public_key))
    assert NETWORK.includes(NETWORK)
    assert NETWORK.includes(replace(NETWORK, institutions=more))
    assert not replace(NETWORK, institutions=more).includes(NETWORK)
    assert not NETWORK.includes(replace(NETWORK, id=NETWORK.id[:4] + bytes(28)))
    swapped = (*more[:1], replace(more[1], key=key(9).public_key), *more[2:])
    assert not NETWORK.includes(replace(NETWORK, institutions=swapped))
    assets = (replace(NETWORK.assets[0], exponent=0), *NETWORK.assets[1:])
    assert not NETWORK.includes(replace(NETWORK, assets=assets))


def test_what_a_network_is_made_of_belongs_together() -> None:
    participant = models.Participant(bic="BANKDEFF", name="O=X,C=DE", key=str(key(0).public_key), settlement_floors=[])
    asset = models.Asset(code="EUR", kind=models.AssetKind.CURRENCY, exponent=2, settled_at=0, largest_payment=1)
    policy = models.SignaturePolicy.REQUIRED
    told = models.Network(
        id="0a" * 32, participants=[participant], assets=[asset], signatures=policy, longest_validity_ms=1
    )
    assert Network.of(told).asset("EUR").exponent == 2
    assert Network.of(told).id == bytes([10] * 32)
    wrongs: tuple[dict[str, object], ...] = (
        {"id": "7a110001"},
        {"id": "0A" * 32},
        {"id": "0a" * 31},
        {"participants": []},
        {"participants": [participant.model_copy(update={"key": "00"})]},
        {"assets": [asset.model_copy(update={"settled_at": 1})]},
    )
    for wrong in wrongs:
        with pytest.raises(DecodeError):
            Network.of(told.model_copy(update=wrong))


def test_a_network_in_a_directory_has_its_whole_id(tmp_path: Path) -> None:
    def written(identity: object) -> Path:
        (tmp_path / "network.toml").write_text(
            f"[network]\nid = {identity}\nlongest_validity_ms = 5\n"
            f'[[participants]]\nbic = "BANKDEFF"\nkey = "{key(0).public_key}"\n'
            '[[assets]]\ncode = "EUR"\nexponent = 2\nsettled_at = "BANKDEFF"\n'
        )
        return tmp_path

    known = Network.read(written(f'"{NETWORK.id.hex()}"'))
    assert (known.id, known.longest_validity_ms, known.asset("EUR").exponent) == (NETWORK.id, 5, 2)
    for wrong in ('"7a110001"', f'"{NETWORK.id.hex().upper()}"', 7, '""', f'"{NETWORK.id.hex()} "'):
        with pytest.raises(DecodeError, match="64 lower-case hexadecimal digits"):
            Network.read(written(wrong))


def test_refusals_are_the_ledgers() -> None:
    rows = re.findall(r'^    (\w+) = (\d+), "(\w{4})", "([^"]+)";$', (LEDGER / "refusal.rs").read_text(), re.MULTILINE)
    assert len(rows) > 20
    written = [(one.name.replace("_", "").lower(), one.number, one.code, one.sentence) for one in Refusal]
    assert written == [(name.lower(), int(number), code, text) for name, number, code, text in rows]
    with pytest.raises(LookupError):
        Refusal.of(999)
