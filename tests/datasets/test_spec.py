import json
from pathlib import Path

import pytest

from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec
from halohop.errors import IncompleteDatasetError, InputError, SchemaError

SPEC = GraphFiles(
    nodes={"user": NodeFiles(file="u.csv", id="id", features=("a", "b"), masks={"train": "t"})},
    edges={"user__buys__item": EdgeFiles(file="e.parquet", src="s", dst="d", time="when")},
)
TOML = """
[nodes.user]
file = "u.csv"
id = "id"
features = ["a", "b"]
masks = {train = "t"}
[edges.user__buys__item]
file = "e.parquet"
src = "s"
dst = "d"
time = "when"
"""
JSON = json.dumps(
    {
        "nodes": {"user": {"file": "u.csv", "id": "id", "features": ["a", "b"], "masks": {"train": "t"}}},
        "edges": {"user__buys__item": {"file": "e.parquet", "src": "s", "dst": "d", "time": "when"}},
    }
)


@pytest.mark.parametrize(
    ("name", "text"), [("graph.toml", TOML), ("graph.json", JSON), ("graph.yaml", JSON), ("graph.yml", JSON)]
)
def test_each_language_says_the_same(tmp_path: Path, name: str, text: str) -> None:
    if name.endswith(("yaml", "yml")):
        pytest.importorskip("yaml")
    (tmp_path / name).write_text(text)
    assert load_spec(tmp_path) == load_spec(tmp_path / name) == SPEC


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[node.user]\n", SchemaError, "unknown name 'node'; known: .'nodes', 'edges'"),
        ("[nodes.user]\nfile='u'\nid='i'\nlabels='y'\n", SchemaError, r"nodes\.user: unknown name 'labels'"),
        ("[edges.a__b__c]\nfile='u'\nsrc='i'\ndst='j'\nid='y'\n", SchemaError, r"edges\.a__b__c: unknown name 'id'"),
        ("[nodes.user]\nfile='u'\n", InputError, r"graph\.toml: nodes\.user: id is missing; add it"),
        ("[nodes.user]\nfile=3\nid='i'\n", InputError, r"nodes\.user: file must be text, got a whole number"),
        ("nodes = 3\n", InputError, r"graph\.toml: nodes: must be a table, got a whole number"),
        ("[nodes]\nuser = 3\n", InputError, r"nodes\.user: must be a table, got a whole number"),
        ("[nodes.u]\nfile='u'\nid='i'\nfeatures='x'\n", InputError, r"nodes\.u: features must be a list, got text"),
        (
            "[nodes.u]\nfile='u'\nid='i'\nfeatures=['x', 3]\n",
            InputError,
            r"nodes\.u: features\[1\] must be text, got a whole number",
        ),
        ("[nodes.u]\nfile='u'\nid='i'\nlabel=3\n", InputError, r"label must be a list or text, got a whole number"),
        ("[nodes.u]\nfile='u'\nid='i'\nkinds={i='int'}\n", InputError, r"nodes\.u: kinds must be one of text, number, got 'int'"),
        ("[edges.a__b__c]\nfile='u'\nsrc='i'\n", InputError, r"edges\.a__b__c: dst is missing; add it"),
        ("[nodes.user]\nfile='u'\nlable='y'\n", SchemaError, r"nodes\.user: unknown name 'lable'"),
        ("[nodes.user\n", InputError, r"graph\.toml"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    (tmp_path / "graph.toml").write_text(text)
    with pytest.raises(error, match=message):
        load_spec(tmp_path)


@pytest.mark.parametrize(("name", "text"), [("g.json", "[1]"), ("g.json", "{"), ("g.yaml", "a: [")])
def test_other_languages_mistakes(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=name):
        load_spec(tmp_path / name)


def test_absent_and_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(IncompleteDatasetError, match=r"graph\.toml"):
        load_spec(tmp_path)
    with pytest.raises(IncompleteDatasetError, match=r"x\.toml"):
        load_spec(tmp_path / "x.toml")
    (tmp_path / "graph.ini").write_text("")
    with pytest.raises(InputError, match=r"\.toml, \.json"):
        load_spec(tmp_path / "graph.ini")


@pytest.mark.parametrize("name", ["graph.toml", "graph.json", "graph.yaml"])
@pytest.mark.parametrize("opening", ["[", '{"a":', "- ", "? "])
def test_levels_without_end_are_refused(tmp_path: Path, name: str, opening: str) -> None:
    if name == "graph.yaml":
        pytest.importorskip("yaml")
    (tmp_path / name).write_text(("nodes = " if name == "graph.toml" else "") + opening * 100_000)
    with pytest.raises(InputError, match=rf"{name} is nested too deep; a description needs three levels"):
        load_spec(tmp_path)


@pytest.mark.parametrize("name", ["graph.toml", "graph.json"])
def test_levels_that_their_reader_refuses_are_named(tmp_path: Path, name: str) -> None:
    """Python 3.13 reads as many levels of JSON."""
    (tmp_path / name).write_text(("nodes = " if name == "graph.toml" else "") + "[" * 1500 + "]" * 1500)
    with pytest.raises(InputError, match=rf"{name}( is nested too deep; a description needs three levels|: must be a table)"):
        load_spec(tmp_path)


@pytest.mark.parametrize("name", ["graph.toml", "graph.json", "graph.yaml"])
def test_brackets_in_names_and_comments_are_not_levels(tmp_path: Path, name: str) -> None:
    if name == "graph.yaml":
        pytest.importorskip("yaml")
    nodes = {f"from [{number}": {"file": "[{" + "- " * 100, "id": "id"} for number in range(150)}
    text = json.dumps({"nodes": nodes})
    if name == "graph.toml":
        text = "".join(f"[nodes.{json.dumps(key)}]\nfile = '{entry['file']}'\nid = 'id'\n" for key, entry in nodes.items())
    (tmp_path / name).write_text(text + ("" if name == "graph.json" else "\n# " + "[" * 200 + "- " * 200))
    assert len(load_spec(tmp_path).nodes) == 150


NINE = "[" + ", ".join(["x"] * 9) + "]"
BOMB = "".join(f"  a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12))
"""Lists of lists of ... of nine: 9 ** 12 words if all were written out."""


@pytest.mark.parametrize(
    "text",
    [
        "nodes: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.PosixPath [ran]]",
        "nodes: {user: {file: !!python/name:os.system , id: id}}",
        "nodes: !!python/module:antigravity",
        "nodes: {user: {file: !!binary aGVsbG8=, id: id}}",
        f"nodes:\n  a0: &a0 {NINE}\n{BOMB}",
        f"nodes:\n  a0: &a0 {NINE}\n{BOMB}  user: {{file: *a11, id: id}}",
        f"nodes:\n user:\n  file: f\n  id: id\n  masks:\n   a0: &a0 {NINE}\n{BOMB.replace('  a', '   a')}",
        "nodes: &all {user: *all}",
        "nodes: 2026-99-99",
        "nodes: " + "9" * 5000,
        "? [a, b]\n: c",
        "--- a\n--- b",
    ],
    ids=range(12),
)
def test_hostile_yaml_is_refused_by_name_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    pytest.importorskip("yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.yaml").write_text(text)
    with pytest.raises((InputError, SchemaError), match=r"graph\.yaml") as caught:
        load_spec(tmp_path)
    assert len(str(caught.value)) < 1000
    assert [file.name for file in tmp_path.iterdir()] == ["graph.yaml"]
