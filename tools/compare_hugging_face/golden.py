"""Writes tests/golden/hugging_face: the folders that the suite imports, and what transformers says of them."""

import json
import pathlib
import shutil
import sys

import cases
import transformers


def text_of(expected):
    """JSON with a list in each line."""
    models = [
        f"  {json.dumps(name)}: {{\n" + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}"
                                                  for key, value in model.items()) + "\n  }"
        for name, model in expected["models"].items()
    ]
    head = f'{{\n "made_by": {json.dumps(expected["made_by"])},\n "models": {{\n'
    return head + ",\n".join(models) + "\n }\n}\n"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/hugging_face")
    shutil.rmtree(root, ignore_errors=True)
    expected = {"made_by": f"transformers {transformers.__version__}", "models": {}}
    for case in cases.CASES:
        if not case.golden:
            continue
        name = case.name.replace(", ", "-").replace(" ", "-")
        model = cases.write_folder(case, case.make(), root / name)
        expected["models"][name] = {"kind": case.kind, **cases.expectation(case, model, root / name)}
    (root / "expected.json").write_text(text_of(expected))


if __name__ == "__main__":
    main()
