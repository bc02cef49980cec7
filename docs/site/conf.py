"""How Sphinx makes the site of the pages.

Sphinx with MyST and Furo takes the pages as GitHub shows them, documents public names from docstrings, refuses dead links and
searches without a server. Rejected: Zensical 0.1, whose mkdocstrings support is preliminary; Material for MkDocs, whose end is
announced; notebooks in Markdown, which need a Jupyter kernel and directives that GitHub shows as text. The price: packages of
the site have an environment of their own, and the code for signatures and links is here.
"""

import re
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import suppress
from pathlib import Path

from docutils import nodes
from docutils.parsers import Parser
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.transforms import SphinxTransform
from sphinx.util.inspect import signature, stringify_signature

sys.path.insert(0, str(Path(__file__).parent))
import blocks
import structure

from halohop import __version__

project = "halohop"
author = project_copyright = "the halohop authors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown", ".py": "python-file"}

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"halohop {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
if ".dev" in release:
    html_theme_options["announcement"] = f"This is the documentation of the development version {release}."
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output) > div.highlight > pre"


def reachable(site: str) -> bool:
    """Whether a site answers; without a network names of other libraries stay without links."""
    with suppress(OSError), urllib.request.urlopen(f"{site}/objects.inv", timeout=5):
        return True
    return False


OTHERS = {
    "python": "https://docs.python.org/3",
    "torch": "https://docs.pytorch.org/docs/stable",
    "torch_geometric": "https://pytorch-geometric.readthedocs.io/en/latest",
}
intersphinx_mapping = {name: (site, None) for name, site in OTHERS.items() if reachable(site)}
extensions += ["sphinx.ext.intersphinx"] if intersphinx_mapping else []

myst_heading_anchors = 4
default_role = "code"
autoclass_content = "both"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

LANGUAGES = {"python", "sh", "toml", "yaml", "json"}
UNLISTED = {page for section in structure.sections() if not section.title for page in section.pages}
PUBLIC = {name for subject in structure.subjects() for name in subject.entries()}


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", sign)
    app.add_source_parser(PythonFile)
    app.add_transform(LinkedNames)


def read_page(app: Sphinx, name: str, text: list[str]) -> None:
    """Gives the start page the navigation, tutorials what their blocks print, and each block a language that Pygments has."""
    if name == root_doc:
        text[0] += "\n\n" + "\n".join(toctree(section) for section in structure.sections() if section.title)
    if name.endswith((".rst", ".py")) or name.startswith("reference/"):
        return
    if f"{name}.md" in UNLISTED:
        text[0] = f"---\norphan: true\n---\n\n{text[0]}"
    printed = iter(run(name) if name.startswith("docs/tutorials/") else ())

    def replaced(fence: re.Match[str]) -> str:
        return shown(blocks.Block(tag=fence[1], text=fence[2], lines_before=0), next(printed, ""))

    text[0] = blocks.FENCE.sub(replaced, text[0])


def toctree(section: structure.Section) -> str:
    pages = "\n".join(f"/{page.removesuffix('.md').removesuffix('.py')}" for page in section.pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {section.title}\n\n{pages}\n```\n"


def run(name: str) -> list[str]:
    """What each block of a tutorial prints."""
    with tempfile.TemporaryDirectory(prefix="halohop-site-") as folder:
        try:
            printed = blocks.outputs(structure.ROOT / f"{name}.md", Path(folder))
        except subprocess.CalledProcessError as error:
            raise ExtensionError(f"{name}.md: a block failed\n{error.output}") from error
    return [text.replace(f"{folder}/", "").replace(sys.executable, "python") for text in printed]


def shown(block: blocks.Block, printed: str) -> str:
    """A block as MyST has it, and what it printed."""
    if block.tag.startswith("{"):
        return f"```{block.tag}\n{block.text}```"
    kind = Path(block.file).suffix.lstrip(".") if block.file else block.language
    language = {"py": "python", "console": "sh"}.get(kind, kind if kind in LANGUAGES else "text")
    options = f":caption: {block.file}\n" if block.file else ""
    options += ":class: message\n" if block.language == "message" else ""
    output = f"\n\n```{{code-block}} text\n:class: output\n\n{printed.rstrip()}\n```" if printed.strip() else ""
    return f"```{{code-block}} {language}\n{options}\n{block.text}```{output}"


def read_docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Reads Google's sections. The first line of a property is a sentence, though, and not "type: meaning"."""
    kind = "method" if what in ("attribute", "data", "property") else what
    lines[:] = GoogleDocstring(lines, Config(napoleon_use_admonition_for_examples=False), app, kind, name, thing, options).lines()


def sign(app: Sphinx, what: str, name: str, thing: object, *_: object) -> tuple[str, str] | None:
    """Classes are called with the arguments of `__init__`, also where a base has a `__new__` that takes any."""
    if what != "class":
        return None
    return stringify_signature(signature(thing), show_return_annotation=False, unqualified_typehints=True), ""


class PythonFile(Parser):
    """A page that shows a Python file."""

    supported = ("python-file",)

    def parse(self, text: str, document: nodes.document) -> None:
        path = Path(document["source"])
        section = nodes.section(ids=["file"])
        section += nodes.title("", path.name)
        section += nodes.literal_block(text, text, language="python", linenos=False)
        document += section
        document.settings.env.metadata[document.settings.env.docname]["orphan"] = "true"


class LinkedNames(SphinxTransform):
    """Public names in running text, such as ``halohop.open``, lead to their entry in the reference."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            name = re.sub(r"\(.*\)$", "", literal.astext())
            if name in PUBLIC and not isinstance(literal.parent, nodes.reference | pending_xref | nodes.title):
                link = pending_xref("", refdomain="py", reftype="obj", reftarget=name, refexplicit=True, refdoc=self.env.docname)
                literal.replace_self(link)
                link += literal
