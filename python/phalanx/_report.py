"""Reports of runs."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Sequence, Union

from ._library import call, to_request

_Path = Union[str, "os.PathLike[str]"]


class Report:
    """The page of a run, or of several that are compared: `phalanx report`.

    A notebook shows it.

    >>> phalanx.Report("run").save("report.html")
    """

    def __init__(self, directories: Union[_Path, Sequence[_Path]]) -> None:
        if isinstance(directories, (str, os.PathLike)):
            directories = [directories]
        request = {"directories": [os.fsdecode(directory) for directory in directories]}
        self._html: str = call("phalanx_report", to_request(request))["html"]

    @property
    def html(self) -> str:
        """The page, as a text. It needs no other file."""
        return self._html

    def save(self, path: _Path) -> None:
        """Writes the page into a file."""
        Path(path).write_text(self._html, encoding="utf-8")

    def _repr_html_(self) -> str:
        # In a frame: the page's styles are not the notebook's.
        page = html.escape(self._html, quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="800" frameborder="0"></iframe>'
