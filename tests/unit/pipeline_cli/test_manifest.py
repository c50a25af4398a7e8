from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline_cli.exits import BadFile, Exit
from pipeline_cli.manifest import documents, parse, submit_body

ROOT = Path(__file__).parents[3]
TFJOB = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "mnist"}, "spec": {}}
WHOLE = {"userID": "ada", "jobName": "n", "jobKind": "TFJob", "header": {"a": 1}, "job": TFJOB}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: [x, null]\n", [{"a": 1, "b": ["x", None]}]),
        ('{"a": "\\ud83d\\ude00"}', [{"a": "😀"}]),
        ('{\n\t"a": 1\n}', [{"a": 1}]),
        ("{a: 1, b: c}", [{"a": 1, "b": "c"}]),
        ("---\na: 1\n---\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("day: 2025-01-31\nat: 2025-01-31T12:00:00Z\n", [{"day": "2025-01-31", "at": "2025-01-31T12:00:00Z"}]),
        ("base: &b {x: 1}\nuse: {<<: *b, y: 2}\n", [{"base": {"x": 1}, "use": {"x": 1, "y": 2}}]),
        ("base: &b {x: 1}\nuse: {<<: *b, x: 2}\n", [{"base": {"x": 1}, "use": {"x": 2}}]),
    ],
)
def test_yaml_and_json_become_what_json_can_say(text: str, expected: list[Any]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("12:30", "12:30"),
        ("18:00:00", "18:00:00"),
        ("22:22", "22:22"),
        ("01234", "01234"),
        ("010", "010"),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("=", "="),
        ("<<", "<<"),
        ("1e3", 1000.0),
        ("-1.5E+2", -150.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'true'", "true"),
        ('"7"', "7"),
        ("!!str 7", "7"),
        ("!!float 7", 7.0),
    ],
)
def test_a_plain_scalar_of_yaml_means_what_it_would_in_json(scalar: str, value: Any) -> None:
    (document,) = parse(f"key: {scalar}\n")
    assert document == {"key": value}
    assert type(document["key"]) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2\n", '"a" stands here twice'),
        ('{"a": 1, "a": 2}', '"a" stands twice'),
        ("1: a\n", '"1" is no text'),
        ("true: a\n", '"true" is no text'),
        ("a: !!int 0x1F\n", '"0x1F" is no decimal number\n.*line 1, column 4'),
        ("a: !!bool no\n", '"no" is neither true nor false'),
        pytest.param(f"a: {'9' * 5000}\n", "this number cannot be read", id="too many digits"),
        ("a: -.inf\n", "a: -inf is no number in JSON"),
        ("a: 1e999\n", "a: inf is no number in JSON"),
        ("? [a]\n: b\n", "is no text"),
        ("a: [1\n", "line 2"),
        ("a: &a [*a]\n", "holds itself.*\n.*line 1, column 4"),
        ("a: &a {b: {c: *a}}\n", "holds itself"),
        ("&a {<<: *a}\n", "holds itself"),
        ("a: .nan\n", "a: nan is no number in JSON"),
        ('{"a": {"b": [NaN]}}', r"a\.b\.0"),
        ("- a\n", "a list where an object"),
        ("text", '"text" where an object'),
        ("a: !!python/object:os.system x\n", "could not determine a constructor"),
        ("a: !!set {x}\n", None),
        ("", "is empty"),
        ("---\n", "is empty"),
        ("\x00", "is neither YAML nor JSON"),
        ("a0: &a0 x\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2000)), "more than 100 levels deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "more than 100 levels deep"),
        ("[" * 5000, "is neither YAML nor JSON: it is nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path: Path, text: str, says: str | None) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    if says is None:
        assert documents(str(path)) == [{"a": {"x": None}}]
        return
    with pytest.raises(BadFile, match=says) as refused:
        documents(str(path))
    assert refused.value.exit_code == Exit.USAGE
    assert str(path) in refused.value.message


def bomb(innermost: str, level: str) -> str:
    levels = [f"a{n}: &a{n} {level.format(', '.join([f'*a{n - 1}'] * 10))}" for n in range(1, 11)]
    return "\n".join([f"a0: &a0 {innermost}", *levels])


@pytest.mark.parametrize("text", [bomb("x", "[{}]"), bomb("{x: 1}", "{{<<: [{}]}}")])
def test_what_is_too_large_when_written_out_is_refused_before_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(BadFile, match="more than 4194304 characters"):
        documents(str(path))


def test_as_many_levels_as_the_service_takes_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text('{"a":' * 100 + "1" + "}" * 100)
    assert len(documents(str(path))) == 1


def test_what_aliases_stand_for_is_written_out() -> None:
    assert parse("a: &a [x]\nb: [*a, *a]\n") == [{"a": ["x"], "b": [["x"], ["x"]]}]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "job.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadFile, match=r"job\.yaml"):
        documents(str(path))


def test_a_bare_job_is_submitted_under_its_own_name_and_kind() -> None:
    expected = {"jobName": "mnist", "jobKind": "TFJob", "header": {}, "job": TFJOB}
    assert submit_body(TFJOB) == expected


def test_a_whole_submission_is_sent_as_it_is() -> None:
    assert submit_body(WHOLE) == WHOLE
    odd = {"job": None, "joobName": "n"}
    assert submit_body(odd) == odd


def test_options_override_the_file() -> None:
    given = {"user": "bob", "name": "m", "namespace": "team", "header": [("a", "2"), ("b", "3")]}
    changed = {"userID": "bob", "jobName": "m", "jobNameSpace": "team", "header": {"a": "2", "b": "3"}}
    assert submit_body(WHOLE, **given) == WHOLE | changed
    assert submit_body(TFJOB, **given) == {"jobKind": "TFJob", "job": TFJOB} | changed


@pytest.mark.parametrize(("without", "says"), [("kind", "kind"), ("metadata", "--name")])
def test_a_bare_job_without_name_or_kind_is_refused(without: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        submit_body({field: value for field, value in TFJOB.items() if field != without})


@pytest.mark.parametrize(("text", "shown"), [("false", "false"), ("5", "5"), ("[a]", '["a"]')])
def test_a_name_that_is_no_text_is_refused_as_what_it_is(text: str, shown: str) -> None:
    (job,) = parse(f"kind: TFJob\nmetadata: {{name: {text}}}\n")
    with pytest.raises(BadFile) as caught:
        submit_body(job)
    assert caught.value.message == f"metadata.name is {shown}, which is no text: write it in quotes"


def test_a_name_that_other_readers_take_for_false_is_a_text() -> None:
    (job,) = parse("kind: TFJob\nmetadata: {name: no}\n")
    assert submit_body(job)["jobName"] == "no"


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "jobs").glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_jobs_can_be_submitted(path: Path) -> None:
    (document,) = documents(str(path))
    body = submit_body(document)
    assert json.loads(json.dumps(body)) == body
    assert body["jobKind"] == document["kind"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "features").glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_features_have_what_registration_requires(path: Path) -> None:
    for feature in documents(str(path)):
        assert feature["name"]
        assert feature["author"]
        types = [plugin["pluginType"] for plugin in feature["plugins"]]
        assert len(types) == len(set(types)) >= 1
        assert all(plugin["callAddress"].startswith("http://127.0.0.1:9100/") for plugin in feature["plugins"])
