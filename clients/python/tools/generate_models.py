"""Makes `src/tallystick/models.py` from the gateway's OpenAPI document.

python tools/generate_models.py openapi.json            # writes it anew
python tools/generate_models.py openapi.json --check    # 1 when it is not what the document makes
"""

from __future__ import annotations

import argparse
import difflib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "src" / "tallystick" / "models.py"
HEADER = '''"""What goes over HTTP: made by tools/generate_models.py from the OpenAPI document, not by hand."""'''
OPTIONS = [
    *("--input-file-type", "openapi", "--output-model-type", "pydantic_v2.BaseModel"),
    *("--target-python-version", "3.11", "--no-formatters"),
    # What a later gateway adds to its answers is no error.
    *("--extra-fields", "ignore", "--enable-faux-immutability", "--strict-nullable"),
    *("--use-annotated", "--use-standard-collections", "--use-union-operator", "--use-tuple-for-closed-arrays"),
    *("--use-schema-description", "--use-field-description", "--use-attribute-docstrings"),
    *("--use-single-line-docstring", "--collapse-root-models", "--capitalise-enum-members", "--disable-timestamp"),
]


def readable(schema: object) -> None:
    """Puts the document into the form that the generator needs.

    It makes tuples of those arrays alone whose length is said, not only the items of which are all named.
    """
    if isinstance(schema, dict):
        if "prefixItems" in schema and schema.get("items") is False:
            schema["minItems"] = schema["maxItems"] = len(schema["prefixItems"])
        items = schema.get("items")
        if isinstance(items, dict) and items.get("type") == "integer":
            # A bound on an item becomes a class with the singular of the list's name, which may be taken.
            items.pop("minimum", None)
        schema = list(schema.values())
    if isinstance(schema, list):
        for inner in schema:
            readable(inner)


def generated(document: Path) -> str:
    """The module that a document makes."""
    content = json.loads(document.read_text())
    readable(content)
    with tempfile.TemporaryDirectory() as folder:
        (source, target) = (Path(folder) / "openapi.json", Path(folder) / "models.py")
        source.write_text(json.dumps(content))
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "datamodel_code_generator",
            "--input",
            source,
            "--output",
            target,
            *OPTIONS,
        ]
        subprocess.run([*command, "--custom-file-header", HEADER], cwd=ROOT, check=True)
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", target], cwd=ROOT, check=True)
        return target.read_text()


def main() -> int:
    """0, or 1 when there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    text = generated(arguments.document)
    if not arguments.check:
        MODELS.write_text(text)
        return 0
    old = MODELS.read_text()
    if old == text:
        return 0
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "models.py", "generated"))
    print("error: models.py is not what the document makes: run tools/generate_models.py with it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
