"""How Sphinx builds the site: sphinx-build -W --keep-going -b html docs docs/_build/html."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path
from typing import Any

# Compiling kernels is no news on a page.
os.environ.setdefault("CUDF_FSST_QUIET", "1")

project = "cudf-fsst"
author = "The cudf-fsst developers"
copyright = "The cudf-fsst developers, Apache License 2.0"
_project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
release = version = _project["version"]
#: Where the repository is, for links to it and to its issues: as `project.urls` of pyproject.toml says, else as GitHub
#: tells those who build there. None: there are no such links.
repository = _project.get("urls", {}).get("Repository")
if repository is None and "GITHUB_REPOSITORY" in os.environ:
    repository = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "notebooks/.ipynb_checkpoints"]

# Pages.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

# Notebooks are run, so that their pictures show; a cell that fails fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference, from docstrings.
default_role = "py:obj"
autodoc_member_order = "bysource"
autosummary_generate = False  # tables alone
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# Links to other sites are checked once a week, by .github/workflows/links.yml.
linkcheck_timeout = 20
linkcheck_retries = 2

html_theme = "pydata_sphinx_theme"
html_title = "cudf-fsst"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars: dict[str, list[str]] = {"index": [], "first_minutes": [], "performance": []}
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
if repository is not None:
    html_theme_options |= {
        "icon_links": [{"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}],
        "external_links": [{"name": "Issues", "url": f"{repository}/issues"}],
    }


def _as_a_site(app: Any, docname: str, source: list[str]) -> None:
    """Change what lies elsewhere on the site than in the repository, where the pages are read as well."""
    if docname.startswith("notebooks/"):
        source[0] = re.sub(r"\[([^\[\]\n]*)\]\(\.\./docs/(\w+)\.md\)", r"{doc}`\1 </\2>`", source[0])
    else:
        source[0] = re.sub(r"\[([^\]]*)\]\(\.\./(notebooks/\w+)\.ipynb\)", r"{doc}`\1 </\2>`", source[0])
        picture = "![The rooms of the package; an arrow leads to a room that is used](drawings/rooms.svg)\n"
        source[0] = re.sub(r"^```mermaid\n.*?^```\n", picture, source[0], flags=re.MULTILINE | re.DOTALL)


def _without_types(app: Any, what: str, name: str, obj: Any, options: Any, text: str | None, returns: Any) -> Any:
    """Signatures without types, which numpydoc's sections say; those of properties stay."""
    if not text:
        return None
    try:
        function = ast.parse(f"def f{text}: ...").body[0]
    except SyntaxError:  # a default that is no literal
        return None
    assert isinstance(function, ast.FunctionDef)
    found = function.args
    for one in (*found.posonlyargs, *found.args, *found.kwonlyargs, found.vararg, found.kwarg):
        if one is not None:
            one.annotation = None
    return f"({ast.unparse(found)})", None


def setup(app: Any) -> None:
    """Register what this site adds to Sphinx."""
    app.connect("autodoc-process-signature", _without_types)
    app.connect("source-read", _as_a_site)
