"""Checks ISO 20022 messages with software that shares nothing with Tallystick.

Every document and header of every file is read by the classes that pyiso20022 generates from the published message
definitions, and held against their order, numbers, choices, lengths, patterns and code lists. Where a package bundles
the published schema itself, the document is also validated against that. Then each file is damaged in many ways, and the
checks must notice: a check that cannot fail proves nothing.
"""

import copy
import dataclasses
import enum
import importlib
import pathlib
import re
import sys
import typing
import xml.etree.ElementTree as ElementTree
from decimal import Decimal, InvalidOperation

import xmlschema
from xsdata.exceptions import ConverterWarning, ParserError
from xsdata.formats.dataclass.parsers import XmlParser
from xsdata.formats.dataclass.parsers.config import ParserConfig
from xsdata.models.datatype import XmlDate, XmlDateTime

STANDARD = "urn:iso:std:iso:20022:tech:xsd:"
# Published schemas, by the package that bundles them and the folder within.
SCHEMAS = {
    "camt.053.001.08": ("camt053", "xsd"),
    "camt.054.001.08": ("camt053", "xsd"),
    "pain.002.001.03": ("pain001", "pain002/schemas"),
}


def local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def namespace(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[0].removeprefix("{")


def definition(element: ElementTree.Element) -> str:
    return namespace(element).removeprefix(STANDARD)


def parts(root: ElementTree.Element) -> list[ElementTree.Element]:
    """The documents and headers of a file, alone or in an envelope."""
    return [element for element in root.iter() if local(element) in ("Document", "AppHdr")]


def model(name: str) -> type:
    """The class of the outermost element of that definition."""
    module = name.replace(".", "_")
    loaded = importlib.import_module(f"pyiso20022.{name.partition('.')[0]}.{module}.{module}")
    return loaded.Document if hasattr(loaded, "Document") else loaded.AppHdr


def schema(name: str) -> xmlschema.XMLSchema | None:
    if name not in SCHEMAS:
        return None
    package, folder = SCHEMAS[name]
    # The package itself is not run: only the file beside its code is used.
    for entry in map(pathlib.Path, sys.path):
        path = entry / package / folder / f"{name}.xsd"
        if path.is_file():
            return xmlschema.XMLSchema(path)
    raise FileNotFoundError(f"{package} has no {name}.xsd")


def value_type(hint: object) -> object:
    """What a field holds, without its being optional or a list."""
    for inner in typing.get_args(hint):
        if inner is not type(None):
            return value_type(inner)
    return hint


def is_many(hint: object) -> bool:
    return typing.get_origin(hint) is list or any(is_many(inner) for inner in typing.get_args(hint))


class Model:
    """The fields of the classes, by the names of their elements."""

    def __init__(self) -> None:
        self.known: dict[type, dict[str, tuple]] = {}

    def fields(self, holder: type) -> dict[str, tuple]:
        if holder not in self.known:
            hints = typing.get_type_hints(holder)
            self.known[holder] = {
                field.metadata.get("name", field.name): (place, field.metadata, hints[field.name])
                for place, field in enumerate(dataclasses.fields(holder))
                if field.metadata.get("type") != "Ignore"
            }
        return self.known[holder]

    def faults(self, element: ElementTree.Element, holder: type, path: str) -> typing.Iterator[str]:
        fields = self.fields(holder)
        children = list(element)
        elements = {name: field for name, field in fields.items() if field[1].get("type") == "Element"}
        attributes = {name: field for name, field in fields.items() if field[1].get("type") == "Attribute"}
        yield from self.content_faults(element, fields, path)
        for name, (_, metadata, hint) in attributes.items():
            if name in element.attrib:
                yield from value_faults(element.attrib[name], metadata, hint, f"{path}@{name}")
            elif metadata.get("required"):
                yield f"{path}: the attribute {name} is missing"
        yield from (f"{path}: there is no attribute {name}" for name in element.attrib if name not in attributes)
        if elements and (element.text or "").strip():
            yield f"{path}: text between elements"
        place = -1
        counts: dict[str, int] = {}
        for child in children:
            name = local(child)
            if name not in elements or namespace(child) != namespace(element):
                yield f"{path}: there is no element {name}"
                continue
            at, metadata, hint = elements[name]
            if at < place:
                yield f"{path}: {name} is out of order"
            place = max(at, place)
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1 and not is_many(hint):
                yield f"{path}: {name} is there twice"
            held = value_type(hint)
            if dataclasses.is_dataclass(held):
                yield from self.faults(child, held, f"{path}/{name}")
            else:
                if len(child):
                    yield f"{path}/{name}: elements where text is expected"
                yield from value_faults(child.text or "", metadata, hint, f"{path}/{name}")
        for name, (_, metadata, _) in elements.items():
            if (metadata.get("required") or metadata.get("min_occurs")) and name not in counts:
                yield f"{path}: {name} is missing"
        if re.search(r"Choice\d*$", holder.__name__) and len(counts) != 1:
            yield f"{path}: a choice of one has {len(counts)}"

    def content_faults(self, element: ElementTree.Element, fields: dict, path: str) -> typing.Iterator[str]:
        """What is wrong with the text of an element that has attributes too."""
        for name, (_, metadata, hint) in fields.items():
            if name == "value" and "type" not in metadata:
                yield from value_faults(element.text or "", metadata, hint, path)


def value_faults(text: str, metadata: typing.Mapping, hint: object, path: str) -> typing.Iterator[str]:
    held = value_type(hint)
    if isinstance(held, type) and issubclass(held, enum.Enum):
        if text not in {code.value for code in held}:
            yield f"{path}: {text!r} is not of the code list"
        return
    if "min_length" in metadata and len(text) < metadata["min_length"]:
        yield f"{path}: {text!r} is too short"
    if "max_length" in metadata and len(text) > metadata["max_length"]:
        yield f"{path}: {text!r} is too long"
    if "pattern" in metadata and not re.fullmatch(metadata["pattern"], text):
        yield f"{path}: {text!r} does not match {metadata['pattern']}"
    if held is bool and text not in ("true", "false", "1", "0"):
        yield f"{path}: {text!r} is not true or false"
    if held in (XmlDate, XmlDateTime):
        try:
            held.from_string(text)
        except ValueError:
            yield f"{path}: {text!r} is not a {held.__name__}"
    if held is Decimal:
        yield from decimal_faults(text, metadata, path)


def decimal_faults(text: str, metadata: typing.Mapping, path: str) -> typing.Iterator[str]:
    try:
        number = Decimal(text).normalize()
    except InvalidOperation:
        yield f"{path}: {text!r} is not a number"
        return
    _, digits, exponent = number.as_tuple()
    decimals = max(0, -exponent)
    if decimals > metadata.get("fraction_digits", decimals):
        yield f"{path}: {text} has too many decimals"
    if max(len(digits) + max(0, exponent), decimals) > metadata.get("total_digits", 99):
        yield f"{path}: {text} has too many digits"
    if "min_inclusive" in metadata and number < metadata["min_inclusive"]:
        yield f"{path}: {text} is too small"


class Checker:
    def __init__(self) -> None:
        self.model = Model()
        self.schemas: dict[str, xmlschema.XMLSchema | None] = {}
        self.parser = XmlParser(
            config=ParserConfig(
                fail_on_unknown_properties=True,
                fail_on_unknown_attributes=True,
                fail_on_converter_warnings=True,
            )
        )

    def schema(self, name: str) -> xmlschema.XMLSchema | None:
        if name not in self.schemas:
            self.schemas[name] = schema(name)
        return self.schemas[name]

    def model_faults(self, part: ElementTree.Element) -> list[str]:
        holder = model(definition(part))
        try:
            self.parser.from_string(ElementTree.tostring(part, encoding="unicode"), holder)
        except (ParserError, ConverterWarning, TypeError, ValueError) as error:
            return [f"{local(part)}: {error}"]
        return list(self.model.faults(part, holder, local(part)))

    def schema_faults(self, part: ElementTree.Element) -> list[str]:
        published = self.schema(definition(part))
        if published is None:
            return []
        return [f"{error.path}: {error.reason}" for error in published.iter_errors(part)]


def damages(part: ElementTree.Element) -> typing.Iterator[tuple[str, ElementTree.Element]]:
    """The part, each time with one thing wrong that no message definition allows."""
    for place, element in enumerate(part.iter()):
        def at(damaged: ElementTree.Element, place: int = place) -> ElementTree.Element:
            return list(damaged.iter())[place]

        name = local(element)
        damaged = copy.deepcopy(part)
        at(damaged).insert(0, ElementTree.Element(element.tag.replace(name, "Unknwn")))
        yield f"an unknown element in {name}", damaged
        if len(element):
            continue
        damaged = copy.deepcopy(part)
        at(damaged).text = "x" * 2_049
        yield f"too long a text in {name}", damaged
        damaged = copy.deepcopy(part)
        at(damaged).text = ""
        yield f"no text in {name}", damaged


def disorders(part: ElementTree.Element) -> typing.Iterator[tuple[str, ElementTree.Element]]:
    for place, element in enumerate(part.iter()):
        children = list(element)
        for first in range(len(children) - 1):
            if local(children[first]) == local(children[first + 1]):
                continue
            damaged = copy.deepcopy(part)
            holder = list(damaged.iter())[place]
            moved = holder[first]
            holder.remove(moved)
            holder.insert(first + 1, moved)
            yield f"{local(moved)} and what follows it in {local(element)} swapped", damaged


def check_damages(checker: Checker, part: ElementTree.Element, number: int) -> typing.Iterator[str]:
    """A sample of the damages, spread over the file, must each be noticed by each check that there is."""
    found = [*damages(part), *disorders(part)]
    for what, damaged in found[:: max(1, len(found) // number)]:
        if not checker.model_faults(damaged):
            yield f"the message definition's classes do not notice {what}"
        if checker.schema(definition(part)) is not None and not checker.schema_faults(damaged):
            yield f"the published schema does not notice {what}"


def main(folder: str) -> int:
    checker = Checker()
    files = sorted(pathlib.Path(folder).glob("*.xml"))
    passed, failed = 0, 0
    if not files:
        print(f"error: {folder} has no file *.xml", file=sys.stderr)
    for path in files:
        try:
            found = parts(ElementTree.parse(path).getroot())
            faults = [] if found else ["there is no document"]
        except ElementTree.ParseError as error:
            found, faults = [], [str(error)]
        for part in found:
            faults += checker.model_faults(part) + checker.schema_faults(part)
            if not faults:
                faults += check_damages(checker, part, 30)
        kinds = ", ".join(definition(part) + ("*" if checker.schema(definition(part)) else "") for part in found)
        print(f"{'refused' if faults else 'ok'}: {path.name}: {kinds}")
        for fault in faults:
            print(f"  {fault}", file=sys.stderr)
        passed, failed = passed + (not faults), failed + bool(faults)
    print("* also by the published schema")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
