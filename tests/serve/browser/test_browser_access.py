"""The pages for everyone: axe, keyboards, phones, the dark, and no motion for those it disturbs."""

from __future__ import annotations

from typing import Any, Literal

from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browsing import Visit

AXE = Axe().axe_script
ALL = {"resultTypes": ["violations"]}  # in detail
SCHEMES: dict[Literal["light", "dark"], Any] = {
    "light": ALL,
    "dark": ALL | {"runOnly": ["color-contrast"]},  # what differs there
}


def expect_no_barriers(visit: Visit) -> None:
    """Axe finds nothing, in light and in dark."""
    visit.page.evaluate(AXE)
    for scheme, options in SCHEMES.items():
        visit.page.emulate_media(color_scheme=scheme)
        visit.settled()
        found = AxeResults(visit.page.evaluate("options => axe.run(document, options)", options))
        assert found.violations_count == 0, f"{scheme}: {found.generate_report()}"


def test_the_explorer_has_no_barriers(visit: Visit) -> None:
    visit.explorer("plain", ["/"], ["/docs"])
    expect(
        visit.page.get_by_role("img", name="Chart of 2 keys: /, /docs. The table below has the numbers.")
    ).to_be_visible()
    expect_no_barriers(visit)
    visit.show("A list")
    visit.drop("keys.csv", b"key,n\n/,1\n")
    expect(visit.at("#mapping")).to_be_visible()
    visit.answer("**/lookup", 503, '{"error": "busy"}')
    visit.press("Look up the list")
    expect_no_barriers(visit)


def test_composite_keys_and_series_have_no_barriers(visit: Visit) -> None:
    visit.explorer("by-day")
    visit.button("Look up").click()
    expect(visit.at("#key-problem")).to_be_visible()
    expect_no_barriers(visit)
    visit.choose("Release", "daily")
    visit.look_up("/")
    expect_no_barriers(visit)


def test_the_planner_has_no_barriers(visit: Visit) -> None:
    visit.planner()
    expect(visit.page.get_by_role("img", name="Chart of the mean absolute error")).to_be_visible()
    visit.at("#refusals-title").click()
    expect_no_barriers(visit)


def test_everything_is_reached_and_done_by_keyboard(visit: Visit) -> None:
    visit.explorer("plain")
    keyboard, focused = visit.page.keyboard, visit.at(":focus")
    keyboard.press("Tab")
    expect(focused).to_have_text("Skip to the results")
    expect(focused).to_be_in_viewport()
    expect(focused).to_have_css("outline-style", "solid")
    keyboard.press("Enter")
    expect(visit.at("#results")).to_be_focused()
    visit.page.reload()
    visit.settled()
    for words in ("Skip to the results", "Explorer", "Planner"):
        keyboard.press("Tab")
        expect(focused).to_have_text(words)
    keyboard.press("Tab")
    expect(visit.at("#release")).to_be_focused()
    keyboard.press("Tab")
    expect(visit.at("input[value=keys]")).to_be_focused()
    keyboard.press("Tab")
    expect(visit.at("#part-0")).to_be_focused()
    keyboard.type("/docs")
    keyboard.press("Enter")
    visit.settled()
    expect(visit.at("#rows th")).to_have_text(["/docs"])
    expect(visit.at("#part-0")).to_be_focused()
    keyboard.press("Shift+Tab")
    keyboard.press("ArrowRight")
    visit.settled()
    expect(visit.at("#list-panel")).to_be_visible()
    expect(visit.at("input[value=list]")).to_be_focused()


def test_a_phone_shows_all_without_scrolling_sideways(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 320, "height": 640})
    visit.explorer("by-day", ["2026-11-01", "49", "/" + "long" * 40])
    expect(visit.at("html")).to_have_js_property("scrollWidth", 320)
    visit.choose("Release", "daily")
    visit.look_up("/")
    expect(visit.at("html")).to_have_js_property("scrollWidth", 320)
    visit.show("A list")
    expect(visit.at("html")).to_have_js_property("scrollWidth", 320)
    visit.planner(delta="1e-9", max_keys_per_user="20")
    expect(visit.at("html")).to_have_js_property("scrollWidth", 320)


def test_dark_and_light_follow_the_system(visit: Visit) -> None:
    visit.explorer("plain", ["/"])
    body = visit.at("body")
    visit.page.emulate_media(color_scheme="dark")
    expect(body).to_have_css("background-color", "rgb(19, 23, 30)")
    expect(visit.at("#chart")).to_have_attribute("data-scheme", "dark")
    visit.page.emulate_media(color_scheme="light")
    expect(body).to_have_css("background-color", "rgb(246, 247, 249)")
    expect(visit.at("#chart")).to_have_attribute("data-scheme", "light")


def test_nothing_moves_for_those_whom_it_disturbs(visit: Visit) -> None:
    visit.explorer("plain")
    visit.hold("**/lookup")
    visit.at("#part-0").fill("/")
    visit.button("Look up").click()
    expect(visit.at(".activity span")).to_have_css("animation-name", "appear, slide")
    visit.page.emulate_media(reduced_motion="reduce")
    expect(visit.at(".activity span")).to_have_css("animation-name", "appear")
