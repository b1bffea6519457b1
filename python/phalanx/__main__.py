"""`python -m phalanx ARGUMENTS` runs the program `phalanx` in place of this process."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def _is_program(path: Path) -> bool:
    """Whether the file is a program, and not a script that calls this module."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def program_path() -> str:
    """The program: that of the package, that beside PHALANX_LIBRARY, or one of PATH."""
    named = os.environ.get("PHALANX_LIBRARY")
    candidates = [Path(__file__).parent / "bin" / "phalanx"]
    if named:
        candidates.insert(0, Path(named).absolute().parent / "phalanx")
    found = shutil.which("phalanx")
    if found is not None:
        candidates.append(Path(found))
    for candidate in candidates:
        if _is_program(candidate):
            return str(candidate)
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"the program phalanx was not found: install Phalanx ({looked})")


def main() -> None:
    """Runs the program with the words of this process."""
    try:
        program = program_path()
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
