"""The planner: every control, and that what it shows is what the library plans."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from browsing import Visit, shown
from sparsedp.serve import planner

START = {
    "epsilon": "1",
    "delta": "0",
    "max_keys_per_user": "1",
    "max_per_key": "1",
    "nonzero": "100000",
    "domain": "",
    "mechanism": "auto",
    "noise": "auto",
}


def compared(**changes: str) -> dict[str, Any]:
    return planner.compared(planner.Asked.read(START | changes))


def expect_comparison(visit: Visit, **changes: str) -> None:
    """The page shows the comparison of these parameters."""
    found = compared(**changes)
    expect(visit.at("#chosen")).to_have_text(found["chosen"])
    expect(visit.at("#command")).to_have_text(found["command"])
    expect(visit.at("#python")).to_have_text(found["python"])
    rows = [row for row in found["mechanisms"] if row["note"] is None]
    expect(visit.at("#rows tr th label")).to_have_text([row["mechanism"] for row in rows])
    zero = found["counts"].index(0)
    errors = ["–" if row["errors"][zero] is None else shown(row["errors"][zero]) for row in rows]
    expect(visit.at("#rows tr td:nth-child(5)")).to_have_text(errors)
    expect(visit.at("#refused dt")).to_have_text([row["mechanism"] for row in found["mechanisms"] if row["note"]])


def test_it_compares_all_mechanisms_and_says_what_auto_takes(visit: Visit) -> None:
    visit.planner()
    expect_comparison(visit)
    expect(visit.at("#reason")).to_contain_text("pure privacy")
    expect(visit.at("#figures dt")).to_have_text(
        ["Size of the file", "Bits per key", "Error of an absent key", "Largest mean error"]
    )
    expect(visit.at("#rows .chosen .tag")).to_have_text(["auto takes it"])
    expect(visit.at("#rows tr").filter(has_text="threshold-alp").locator(".tag")).to_have_text(["the paper's"])
    expect(visit.at("#status")).to_have_text("4 mechanisms compared")
    visit.expect_drawn(4)
    visit.page.get_by_role("checkbox", name="threshold", exact=True).uncheck()
    visit.expect_drawn(3)
    visit.page.get_by_role("checkbox", name="logarithmic errors").uncheck()
    visit.expect_drawn(3)
    visit.at("#refusals-title").click()
    expect(visit.at("#refused")).to_contain_text("domain")


def test_every_parameter_changes_the_plan_and_the_link(visit: Visit) -> None:
    visit.planner()
    visit.page.route("**/v1/compare?*", lambda route: route.fulfill(json=compared()))  # only the last one matters
    changes = {"epsilon": "0.5", "delta": "1e-9", "max_keys_per_user": "20", "max_per_key": "2", "nonzero": "1e6"}
    for name, value in changes.items():
        visit.at(f"#{name}").fill(value)
    visit.at("#domain").fill("2^40")
    visit.settled()
    visit.mend()
    visit.choose("Noise", "geometric")
    written = changes | {"nonzero": "1000000", "domain": str(2**40), "noise": "geometric"}
    expect_comparison(visit, **written)
    expect(visit.at("#delta-slider")).to_have_attribute("aria-valuetext", "10⁻⁹")
    visit.page.reload()
    visit.settled()
    expect_comparison(visit, **written)
    visit.press("Back to the start")
    expect_comparison(visit)
    expect(visit.at("#domain")).to_have_value("")


def test_sliders_move_by_keyboard_over_their_whole_range(visit: Visit) -> None:
    visit.page.route("**/v1/compare?*", lambda route: route.fulfill(json=compared()))
    visit.planner()
    ends = {
        "epsilon": ("0.01", "20"),
        "delta": ("0", "0.001"),
        "max_keys_per_user": ("1", "1000"),
        "max_per_key": ("1", "1000"),
        "nonzero": ("100", "1000000000"),
    }
    for name, (least, most) in ends.items():
        visit.at(f"#{name}-slider").press("End")
        expect(visit.at(f"#{name}")).to_have_value(most)
        visit.at(f"#{name}-slider").press("Home")
        expect(visit.at(f"#{name}")).to_have_value(least)
    visit.settled()
    expect(visit.page).to_have_url(re.compile(r"#epsilon=0.01&delta=0&max_keys_per_user=1&max_per_key=1&nonzero=100&"))


def test_what_cannot_be_planned_is_said_beside_its_input(visit: Visit) -> None:
    visit.planner()
    problems = {
        "epsilon": ("-1", "Enter a positive number, not -1."),
        "delta": ("much", "Enter a number, such as 1000 or 1e-9."),
        "nonzero": ("1.5", "Enter a whole number of at least 1, not 1.5."),
        "domain": ("x", "Enter a whole number, such as 65536 or 2^32, or nothing."),
    }
    for name, (value, problem) in problems.items():
        visit.at(f"#{name}").fill(value)
        visit.settled()
        expect(visit.at(f"#{name}-problem")).to_have_text(problem)
        expect(visit.at(f"#{name}")).to_have_attribute("aria-invalid", "true")
        expect(visit.at("#answers")).to_be_hidden()
    visit.press("Back to the start")
    expect_comparison(visit)
    visit.expected.append("status of 400")
    visit.choose("Noise", "gaussian")
    expect(visit.at("#failure-text")).to_contain_text("Gaussian noise needs")
    visit.at("#epsilon").fill("1000")
    visit.settled()
    expect(visit.at("#failure-text")).to_contain_text("got 1000")


def test_the_command_and_the_call_are_copied(visit: Visit) -> None:
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.planner()
    for at, name in enumerate(("command", "python")):
        visit.button("Copy").nth(at).click()
        expect(visit.at("#copied")).to_have_text("Copied.")
        assert visit.page.evaluate("navigator.clipboard.readText()") == compared()[name]
        visit.at("#epsilon").fill("1")  # the same plan, and the note is gone
        visit.settled()
        expect(visit.at("#copied")).to_have_text("")


def test_without_releases_the_planner_is_the_first_page(visit: Visit) -> None:
    visit.page.goto(f"{visit.site.bare}/")
    visit.settled()
    expect(visit.page.get_by_role("heading", level=1)).to_have_text("What would it cost?")
    expect(visit.at("#to-explorer")).to_be_hidden()
    expect_comparison(visit)
