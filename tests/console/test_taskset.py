"""The TaskSet on a job's page: patches that are applied one after the other, up to what was launched."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
import yaml

from tests.builders import plugin, taskset
from tests.console.browser import Browser, Keys
from tests.console.scenario import environment, selector
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for

SCRIPT = """
# What the plugins put into the environment, and who is shown first: "a: b"
echo "$DATASET $HTTP_PROXY"
"""

DOCUMENTS: list[Any] = [
    {
        "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b", "optional": True}}],
        "empty": [{}, [], ""],
    },
    {
        "terms": [{"matchExpressions": [{"key": "a", "values": ["b", [1, {"k": [2]}]]}]}],
        "deep": [[["a\nb", ["q"]], {"m": {}}]],
    },
    {
        "texts": [SCRIPT, "a\nb", "a\n\n", "  a\nb\n", "\n  a\nb", "a\r\nb", "a\tb"],
        "in": [{"script": SCRIPT, "x": {"y": SCRIPT}}],
    },
    {
        "words": [
            "true",
            "7",
            "1e3",
            "on",
            "~",
            "2026-01-01",
            "12:30:45",
            "1_000",
            "0o17",
            ".inf",
            "=",
            "- x",
            "a: b",
            "a #b",
            "x:",
        ]
    },
    {
        "a: b": 1,
        "- x": 2,
        "7": 3,
        "": 4,
        "on": 5,
        "pipeline/job-id": "j",
        "none": None,
        "no": False,
        "n": 1.5,
        "ü": 'it\'s "q"',
    },
]


def shown(browser: Browser) -> Any:
    """The document on the page, read as the YAML that it looks like."""
    rows = browser.script(
        "return [...document.querySelectorAll('.blame td.line > span')].map("
        "(one) => [parseFloat(one.style.paddingLeft || '0'), one.textContent])"
    )
    return yaml.safe_load("".join(f"{' ' * round(depth)}{text}\n" for depth, text in rows))


def bound(body: dict[str, Any]) -> dict[str, Any]:
    """What a binder answers that sets a scheduler and a label."""
    answer = copy.deepcopy(body["job"])
    for role in answer["spec"]["roles"]:
        role["template"]["metadata"] = {"labels": {"priority": "7"}}
        role["template"]["spec"]["schedulerName"] = "volcano"
    return answer


def test_the_slider_shows_what_each_change_made_up_to_what_was_launched(
    admin: Browser, service: Installation, plugins: PluginServer
) -> None:
    asked = {"jobSelector": selector("replayed")}
    translator = plugin("TemplateTranslator", plugins.plugin("/makes", lambda body: body["job"]["makes"]), **asked)
    decorators = [
        plugin("TemplateDecorator", plugins.plugin(f"/{name}", environment(name, value)), **asked)
        for name, value in (("DATASET", "/data"), ("HTTP_PROXY", "http://proxy:3128"))
    ]
    binder = plugin("SchedulerBinder", plugins.plugin("/binds", bound), **asked)
    service.register("makes", translator)
    for number, decorator in enumerate(decorators):
        service.register(f"decorates-{number}", decorator)
    service.register("binds", binder)
    makes = {"kind": "Made", "makes": taskset(SCRIPT)}
    job = service.submit(makes, name="replayed", header={"replayed": "yes"})
    service.wait_state(job, "succeeded")

    blame = service.get(f"/v1/job/blame/{job}")
    versions = [blame["first"]] if blame["first"] else []
    for change in blame["changes"]:
        versions.append(jsonpatch.apply_patch(versions[-1] if versions else {}, change["patch"]))
    assert versions[-1] == service.get(f"/v1/job/taskset/{job}") == blame["taskset"]
    authors = [change["plugin"] for change in blame["changes"]]
    assert len(authors) == 4, authors

    admin.open(f"/jobs/{job}")
    slider = admin.find("#version")
    wait_for(lambda: shown(admin) == versions[-1], "the TaskSet that was launched", progress=lambda: shown(admin))
    slider.send_keys(Keys.HOME)
    for number, (version, author) in enumerate(zip(versions, authors, strict=True)):
        if number:
            slider.send_keys(Keys.ARROW_RIGHT)
        admin.find(".versions output", author)
        assert shown(admin) == version, author
    assert service.ask("GET", f"/v1/job/logs/{job}").text == "/data http://proxy:3128\n"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_any_document_is_shown_as_yaml(admin: Browser, document: Any) -> None:
    script = """
        const [given, done] = arguments;
        const main = document.querySelector('script[type=module]').src;
        import(main.replace('main.js', 'pages/job/blame.js')).then(({ authored, linesOf }) =>
            done(linesOf(authored(given, 0)).map(({ depth, name, text }) => '  '.repeat(depth) + name + text)));
    """
    admin.open()
    lines = admin.driver.execute_async_script(script, document)
    assert yaml.safe_load("".join(f"{line}\n" for line in lines)) == document
