from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.variables import (
    MAX_RENDERED,
    MAX_TEXT,
    NAMES,
    builtin_values,
    check,
    render,
)

VALUES = {
    **builtin_values(
        creator="ann",
        runner="bob",
        pipeline_id="17",
        pipeline_name="sales",
        cluster_name="east",
        execution_date="2026-03-01 06:00:00",
        timezone="Asia/Shanghai",
    ),
    "DAY": "2026-03-01",
    "OPTS": "a=b&c",
    "self": "me",
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{{creator}}/{{ runner }}", "ann/bob"),
        ("{{pipeline_id}}-{{pipeline_name}}@{{cluster_name}}", "17-sales@east"),
        ("{{execution_date}}", "2026-03-01 06:00:00"),
        ("{{execution_date[:10]}}", "2026-03-01"),
        ("{{execution_date[-8:]}} {{execution_date[0]}}", "06:00:00 2"),
        ("{{DAY}} {{OPTS}} {{self}}", "2026-03-01 a=b&c me"),
        ("{{ DAY + 'x' ~ 1 }}", "2026-03-01x1"),
        ("{{ 3 - 1 }}", "2"),
        ("{{ DAY | replace('-', '') | int + 1 }}", "20260302"),
        ("{{ ' A ' | trim | lower }}{{ 'b' | upper }}{{ DAY | length }}", "aB10"),
        ("{{ '{{' }} and {{ '}}' }}", "{{ and }}"),
        ('{{ "it\'s" }}', "it's"),
        (
            "{{ (datetime.datetime.strptime(DAY, '%Y-%m-%d') - datetime.timedelta(days=360)).strftime('%Y%m%d') }}",
            "20250306",
        ),
        ("for f in ${#list[@]}; do {% x %} {# no #}; done\r\n", "for f in ${#list[@]}; do {% x %} {# no #}; done\r\n"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{{ DAY\n}}\n", "2026-03-01\n"),
    ],
)
def test_texts_are_rendered(text: str, rendered: str) -> None:
    assert render(text, VALUES) == rendered


@pytest.mark.parametrize(
    "expression",
    [
        "uuid",
        "uuid ~ ''",
        "uuid | lower",
        "uuid.uuid4",
        "uuid.uuid4 | length",
        "datetime",
        "datetime.datetime",
        "datetime.datetime.now",
        "datetime.timedelta",
        "datetime.datetime.now().isoformat",
        "'' ~ datetime.datetime.now().strftime",
    ],
)
def test_what_is_no_value_is_not_printed(expression: str) -> None:
    with pytest.raises(NotationError, match="has no text"):
        render(f"{{{{ {expression} }}}}", VALUES)


def test_the_usual_uses_of_uuid_and_datetime_work() -> None:
    assert re.fullmatch("[0-9a-f]{4}", render("{{uuid.uuid4().hex[:4]}}", VALUES))
    assert re.fullmatch("[0-9a-f-]{36}", render("{{uuid.uuid4()}}", VALUES))
    text = render('{{datetime.datetime.now().strftime("%Y%m%d-%H%M%S.%f")}}', VALUES)
    assert datetime.strptime(text + "+0800", "%Y%m%d-%H%M%S.%f%z").timestamp() == pytest.approx(
        datetime.now().astimezone().timestamp(), abs=60
    )
    assert re.fullmatch(
        r"v\d{4}\.\d\d\.\d\d\.1", render("{{ datetime.datetime.now().strftime('v%Y.%m.%d.1') }}", VALUES)
    )


@pytest.mark.parametrize(
    ("text", "tasks", "rendered"),
    [
        ("{{pick-window.output}}", {"pick-window"}, "W"),
        ("{{ Pick_Window.output }}", {"pick-window"}, "W"),
        ("{{pick-window.output[:1] ~ is-1b.output}}", {"pick-window", "is-1b"}, "WB"),
        ("{{ 'pick-window.output' }}", set(), "pick-window.output"),
        ("{{ for.output }}", {"for"}, "F"),
        ("{{ pick-window.output | lower }}", {"pick-window"}, "w"),
    ],
)
def test_outputs_of_tasks_are_read_by_their_names(text: str, tasks: set[str], rendered: str) -> None:
    assert check(text, ()) == tasks
    assert render(text, {}, {"pick-window": "W", "is-1b": "B", "for": "F"}) == rendered


def test_an_output_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NotationError, match="no output of a task a-b"):
        render("{{a_b.output}}", VALUES, {"a": "x"})


ESCAPES = [
    "uuid.os.popen('id').read()",
    "uuid.uuid4().__class__.__mro__",
    "uuid.uuid4.__globals__",
    "uuid['os']",
    "uuid[('__cl' ~ 'ass__')]",
    "cycler.__init__.__globals__.os.popen('id').read()",
    "lipsum.__globals__['os'].popen('id').read()",
    "''.__class__.__mro__[1].__subclasses__()",
    "''['__class__']",
    "''|attr('__class__')",
    "'%s' % creator",
    "'{0.__class__}'.format(creator)",
    "'{0.__class__}'.format_map(creator)",
    "creator.format('x')",
    "datetime.datetime.now.__self__",
    "datetime.sys.modules",
    "datetime.datetime.__subclasses__()",
    "datetime.timedelta.__base__",
    "self.__init__.__globals__",
    "self._TemplateReference__context",
    "config.items()",
    "request.application",
    "get_flashed_messages.__globals__",
    "namespace()",
    "joiner()",
    "dict(a=1)",
    "range(999999999)",
    "creator | map('attr', '__class__')",
    "creator | format(1)",
    "creator | string",
    "[].append(1)",
    "{}",
    "(1, 2)",
    "creator.upper()",
    "creator()",
    "(creator)()",
    "uuid.uuid4(*creator)",
    "uuid.uuid4(**creator)",
    "'x' * 9999999999",
    "9 ** 999999",
    "1 / 0",
    "7 // 2",
    "7 % 2",
    "creator if creator else runner",
    "creator and runner",
    "not creator",
    "creator == runner",
    "creator in runner",
    "creator is defined",
    "lambda: 1",
    "creator[runner]",
    "creator[:runner]",
    "creator[1.5]",
    "creator[True]",
    "datetime.datetime.now().strftime('%99999999d')",
    "datetime.datetime.now().strftime('%' ~ 99999 ~ 'd')",
    "datetime.datetime.strptime('1' , '%d%d')",
    "datetime.timedelta(days=99999999999)",
    "creator, runner",
    "- creator",
    "creator -",
    "",
    " ",
    "'",
    "(" * 400 + "1" + ")" * 400,
    "1" + "+1" * 200,
    "_output_0",
    "v_creator",
    "a.output.x",
    "nobody",
]


@pytest.mark.parametrize("expression", ESCAPES, ids=lambda text: text[:40])
def test_what_tries_to_leave_the_sandbox_is_refused(expression: str) -> None:
    with pytest.raises(NotationError):
        render("{{" + expression + "}}", VALUES, {"a": "x"})


@pytest.mark.parametrize("text", ["{{", "{{ a", "{{ ' }}", "{{ creator }", "{{}}", "{{ {{ creator }} }}"])
def test_what_is_not_closed_is_refused(text: str) -> None:
    with pytest.raises(NotationError):
        render(text, VALUES)


def test_an_undefined_name_is_named_before_anything_is_rendered() -> None:
    with pytest.raises(NotationError, match='"YYYMMDD" is not defined'):
        check("echo {{YYYMMDD}}", ["YYYYMMDD"])
    with pytest.raises(NotationError, match='"YYYMMDD" is not defined'):
        render("echo {{YYYMMDD}}", VALUES)


def test_texts_are_bounded_before_and_after() -> None:
    with pytest.raises(NotationError, match=f"longer than {MAX_TEXT}"):
        render("é" * (MAX_TEXT // 2 + 1), VALUES)
    big = {"BIG": "x" * (MAX_RENDERED // 2 + 1)}
    assert len(render("{{BIG}}", big)) == len(big["BIG"])
    for text in ("{{BIG}}{{BIG}}", "{{BIG ~ BIG}}", "{{ BIG | replace('', BIG) }}", "{{ BIG | replace('x', 'xx') }}"):
        with pytest.raises(NotationError):
            render(text, big)


PIECES = st.sampled_from(
    [
        "{{",
        "}}",
        "{",
        "}",
        "'",
        '"',
        "\\",
        "creator",
        "uuid",
        ".",
        "hex",
        "(",
        ")",
        "[",
        "]",
        "1",
        "-",
        "~",
        "|",
        "int",
        " ",
        "a.output",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_rendered_or_refused(text: str) -> None:
    try:
        rendered: Any = render(text, VALUES, {"a": "x"})
    except NotationError:
        return
    assert "{{" in text or rendered == text


@given(st.text(max_size=30))
def test_a_text_without_braces_stays_as_it_is(text: str) -> None:
    assert render(text.replace("{", ""), {}) == text.replace("{", "")


def test_every_built_in_name_has_a_meaning() -> None:
    assert set(VALUES) - {"DAY", "OPTS", "self"} == set(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "docker ps --format '{{.Names}}'",
        "awk '{{print $1}}' /data",
        """python -c 'print(f"{{x}} {1}")'""",
        """python -c 'print(f"{{1: 2}}")'""",
        "kubectl get pods -o go-template='{{range .items}}{{.metadata.name}}{{end}}'",
        "echo {{}}",
        "jq '{a: {b: 1}}' {{",
    ],
)
def test_braces_of_other_tools_are_refused_with_how_to_write_them(text: str) -> None:
    with pytest.raises(NotationError) as caught:
        check(text, [])
    assert "`{{ '{{' }}`" in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("creator[99]", "there is no such item or attribute"),
        ("creator.hex", "there is no such item or attribute"),
        ("creator + 1", "its parts do not fit together"),
        ("uuid.uuid4(1)", "its parts do not fit together"),
        ("datetime.timedelta(days='x')", "its parts do not fit together"),
        ("creator | int", '"ann" is no whole number'),
        ("datetime.datetime.strptime('soon', '%Y')", '"soon" is no date of the form "%Y"'),
        ("datetime.datetime.now() + datetime.timedelta(days=9999999)", "years are from 1 to 9999"),
        ("2 * 3", "`*` may not be used"),
        ("1 if creator else 2", "`if` may not be used"),
        ("[1]", "a list may not be used"),
        ("creator runner", "expected its end, got 'runner'"),
    ],
)
def test_a_refusal_has_words_of_the_notation_and_not_of_python(expression: str, says: str) -> None:
    values = builtin_values(
        creator="ann",
        runner="bob",
        pipeline_id="1",
        pipeline_name="sales",
        cluster_name="local",
        execution_date="2026-03-01 06:00:00",
    )
    with pytest.raises(NotationError) as caught:
        render(f"{{{{ {expression} }}}}", values)
    assert says in str(caught.value)
    for word in ("object", "operand", "NoneType", "'str'", "positional", "literal", "base 10"):
        assert word not in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "says"), [(f"'{'x' * 70}' | int", "…}}"), (f"({'x' * 1100}", "…}}, which is longer than")]
)
def test_a_long_expression_is_quoted_with_a_mark_where_it_is_cut(expression: str, says: str) -> None:
    with pytest.raises(NotationError) as caught:
        render(f"{{{{ {expression} }}}}", {})
    assert says in str(caught.value)
    assert "}}…" not in str(caught.value)
