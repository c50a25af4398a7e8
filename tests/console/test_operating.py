"""The pages of those who decide, operate and submit: decisions, plugins, features, operations, submission."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import plugin, taskset
from tests.console.browser import Browser, Keys
from tests.console.scenario import Scenario, selector
from tests.installation import Installation
from tests.plugin_server import PluginServer
from tests.waiting import wait_for


def _suspended(service: Installation, *names: str) -> list[str]:
    jobs = [service.submit(taskset(), name=name, header={"budget": "yes"}) for name in names]
    for job in jobs:
        service.wait_state(job, "suspended")
    return jobs


def test_several_are_resumed_at_their_gate_with_one_reason(
    browser: Browser, service: Installation, stories: Scenario, token: Callable[..., str]
) -> None:
    jobs = _suspended(service, "decide-1", "decide-2")
    browser.sign_in(token("read_job", "approve_job", forwho="eve"), "/decisions?gate=AccessGate.budget.tests")
    assert "You may decide" in browser.find(".gate header").text
    for name in ("decide-1", "decide-2"):
        browser.find(f"input[aria-label='Choose {name}']").click()
    browser.find(".gate header button", "Resume").click()
    browser.find("dialog textarea").send_keys("within the budget")
    browser.find("dialog button[type=submit]").click()
    browser.wait_gone("dialog")
    browser.find(".done", "Resumed: 2 jobs")
    for job in jobs:
        service.wait_state(job, "succeeded")
        resumed = [entry for entry in service.get(f"/v1/job/trail/{job}") if entry["outcome"] == "resumed"]
        assert [(entry["actor"], entry["reason"]) for entry in resumed] == [("eve", "within the budget")]
    wait_for(lambda: "decide-1" not in browser.texts(".suspended .name"), "the jobs to leave the page")


def test_whoever_decides_second_is_shown_the_sentence(admin: Browser, service: Installation, stories: Scenario) -> None:
    (job,) = _suspended(service, "decided-twice")
    admin.open("/decisions")
    admin.find("button[aria-label='Resume decided-twice']").click()
    admin.find("dialog textarea").send_keys("too late")
    service.ask("PUT", f"/v1/job/stop/{job}")
    admin.find("dialog button[type=submit]").click()
    admin.find("dialog .field-error", f"The job {job} is stopped, not suspended.")


def test_who_may_not_resume_reads_why(browser: Browser, stories: Scenario, token: Callable[..., str]) -> None:
    browser.sign_in(token("read_job", "write_job", forwho="writer"), "/decisions?gate=AccessGate.budget.tests")
    browser.find(".obstacle", "Only a token with approve_job")
    assert browser.script("return document.querySelector('[aria-label^=\"Resume \"]')") is None


def test_plugins_that_do_not_answer_stand_first_with_the_jobs_that_wait(admin: Browser, stories: Scenario) -> None:
    admin.open("/plugins")
    admin.find(".broken h2", "licences does not answer")
    admin.find(".broken .waiting-jobs a", "matlab-sweep")
    admin.find(".broken a", "What would be without it?").click()
    admin.find(".what-if-sum", "1 of")


def test_the_order_is_changed_with_the_keyboard(admin: Browser, service: Installation, stories: Scenario) -> None:
    def order() -> list[str]:
        return [plugin["feature"] for plugin in service.get("/v1/plugins/list/TemplateDecorator")]

    before = order()
    admin.open("/plugins")
    down = f"section[aria-label=TemplateDecorator] li:first-child [aria-label='Move {before[0]} down']"
    admin.script("arguments[0].focus()", admin.find(down))
    admin.press(Keys.ENTER)
    wait_for(lambda: order()[:2] == [before[1], before[0]], "the plugin to run later")
    admin.find(".done", f"{before[0]} is now 2 of {len(before)}.")
    wait_for(
        lambda: admin.driver.switch_to.active_element.get_attribute("aria-label") == f"Move {before[0]} down",
        "the focus to follow",
    )
    service.put("/v1/plugins/sequence", _pair(before[0], before[1]))
    assert order() == before


def test_a_shadow_is_promoted_on_its_feature_s_page(admin: Browser, service: Installation) -> None:
    never = {"conditions": [{"name": "never", "key": "type", "expect": "never"}], "expression": "never"}
    gate = {"pluginType": "AccessGate", "callAddress": "http://127.0.0.1:9/gate", "jobSelector": never}
    service.register("gate-one", gate)
    service.register("gate-two", {**gate, "mode": "shadow", "shadowOf": "AccessGate.gate-one.tests"})
    try:
        admin.open("/plugins")
        admin.find("ul[aria-label=Shadows] li", "gate-two")
        admin.open("/features/gate-two")
        admin.find(".shadow", "It is to replace AccessGate.gate-one.tests.")
        # The counts of the report come later, and move the button: a click by its place might miss it.
        admin.script("arguments[0].click()", admin.find(".shadow button", "Promote"))
        admin.find("dialog button[type=submit]", "Promote").click()
        admin.wait_gone("dialog")
        admin.wait_gone(".shadow")
        modes = [
            service.get(f"/v1/plugins/detail/AccessGate.{name}.tests")["mode"] for name in ("gate-one", "gate-two")
        ]
        assert modes == ["shadow", "active"]
    finally:
        for name in ("gate-one", "gate-two"):
            service.ask("DELETE", f"/v1/features/{name}")


def _pair(first: str, second: str) -> dict[str, str]:
    return {
        "beforeKey": f"TemplateDecorator.{first}.tests",
        "afterKey": f"TemplateDecorator.{second}.tests",
        "pluginType": "TemplateDecorator",
    }


def _type(browser: Browser, old: str, new: str) -> None:
    """Replace a text in the editor, as typing does."""
    script = """
        const [field, old, text] = arguments;
        field.value = field.value.replace(old, text);
        field.dispatchEvent(new Event("input", { bubbles: true }));
    """
    browser.script(script, browser.find(".json-editor textarea"), old, new)


def test_what_is_wrong_with_a_feature_stands_at_its_line(admin: Browser, stories: Scenario) -> None:
    admin.open("/plugins/register")
    admin.find(".what-if")
    _type(admin, "http://quota.plugins.svc/gate", "ftp://quota")
    admin.find(".faults button", "plugins[0].callAddress").click()
    chosen = admin.script(
        "const field = document.activeElement; return field.value.slice(field.selectionStart, field.selectionEnd)"
    )
    assert chosen == '"callAddress": "ftp://quota",'


def test_sending_all_of_a_subscriber_again_says_how_many(admin: Browser, stories: Scenario) -> None:
    admin.open("/operations?view=deliveries&plugin=LifeHook.notices.tests")
    admin.find(".filters button", "Send all again").click()
    admin.find("dialog button[type=submit]").click()
    admin.wait_gone("dialog")
    admin.find("[role=status]", "nothing is sent again")


def test_switching_a_subscriber_says_how_many_deliveries_wait(
    admin: Browser, service: Installation, plugins: PluginServer
) -> None:
    hook = plugin("LifeHook", plugins.plugin("/away", lambda body: "RE"))
    service.register("away", {**hook, "jobSelector": {**selector("away"), "states": ["succeeded"]}})
    try:
        service.wait_state(service.submit(taskset(), header={"away": "yes"}), "succeeded")
        key = "LifeHook.away.tests"
        wait_for(lambda: any(part["plugin"] == key for part in service.get("/v1/status")["deliveries"]), "the delivery")
        for path in ("/plugins", "/features/away"):
            admin.open(path)
            # What waits is read beside the page: the question shows it once it is there.
            admin.find("[role=switch][aria-label=away]").click()
            admin.find("dialog p", "1 delivery waits and is kept")
            admin.press(Keys.ESCAPE)
            admin.wait_gone("dialog")
    finally:
        service.ask("DELETE", "/v1/features/away")


def test_a_token_is_shown_once_and_revoked(admin: Browser, service: Installation) -> None:
    admin.open("/operations?view=tokens")
    admin.find("button", "Create a token").click()
    admin.find("#token-forwho").send_keys("zoe")
    admin.find("input[value=read_job]").click()
    admin.find("dialog button[type=submit]").click()
    value = admin.find(".made-token .value").text
    assert service.ask("GET", "/v1/whoami", token=value).status_code == 200
    admin.find("button[aria-label^='Revoke the token'][aria-label$='for zoe']").click()
    admin.find("dialog button[type=submit]").click()
    admin.wait_gone("dialog")
    assert service.ask("GET", "/v1/whoami", token=value).status_code == 401


def test_a_job_is_looked_at_and_submitted(admin: Browser, service: Installation, stories: Scenario) -> None:
    admin.open("/submit")
    admin.find(".page-head button", "TaskSet").click()
    admin.find(".stage", "The selector does not match.")
    admin.find("#submit-header").send_keys("budget")
    admin.find("#submit-header-note", "“budget” is not KEY=VALUE.")
    assert admin.find(".submit-form button.primary").get_attribute("aria-disabled") == "true"
    admin.find("#submit-header").send_keys("=yes")
    admin.find(".stage summary", "✓ calledbudget")
    _type(admin, '"replicas": 3', '"replicas": -3')
    admin.find(".faults button", "spec.roles[0].replicas")
    _type(admin, '"replicas": -3', '"replicas": 3')
    admin.find(".stage summary", "✓ calledbudget")
    admin.find(".submit-form button.primary").click()
    admin.find("h1", "two-roles")
    job = admin.driver.current_url.rsplit("/", 1)[1]
    assert service.wait_state(job, "suspended")["userID"] == "admin"
