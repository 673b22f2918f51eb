"""A slow service, and one that fails: what is shown always belongs to the current input."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from browsing import Visit, answers

LOOKUP = "**/v1/releases/plain/lookup"
NO_RECALL = "AbortController.prototype.abort = () => {}"  # of requests, in this document


def test_while_the_service_is_slow_the_page_says_so_and_can_be_stopped(visit: Visit) -> None:
    visit.explorer("plain")
    visit.hold(LOOKUP)
    visit.at("#part-0").fill("/")
    visit.button("Look up").click()
    expect(visit.at("body")).to_have_attribute("data-state", "busy")
    expect(visit.at("#results")).to_have_attribute("aria-busy", "true")
    expect(visit.at("#status")).to_have_text("Looking up 1 key…")
    expect(visit.at("#table")).to_be_hidden()
    visit.press("Stop")
    expect(visit.at("#failure-text")).to_have_text("Stopped before the service answered.")
    visit.mend()
    visit.press("Try again")
    expect(visit.at("#failure")).to_be_hidden()
    visit.expect_rows([["/", *answers(visit.site.release("plain"), ["/"])[0]]])


def test_an_old_answer_never_overwrites_a_newer_one(visit: Visit) -> None:
    visit.explorer("plain")
    visit.page.evaluate(NO_RECALL)
    held = visit.hold(LOOKUP)
    visit.at("#part-0").fill("/old")
    with visit.page.expect_request(LOOKUP):
        visit.button("Look up").click()
    visit.look_up("/")
    row = [
        ["/old", *answers(visit.site.release("plain"), ["/old"])[0]],
        ["/", *answers(visit.site.release("plain"), ["/"])[0]],
    ]
    visit.expect_rows(row)
    turn = visit.at("body").get_attribute("data-turn")
    wrong = {"results": [{"key": "wrong", "estimate": 1, "low": 0, "high": 2}]}
    with visit.page.expect_response(LOOKUP):
        held.pop().fulfill(json=wrong)
    visit.settled()
    visit.expect_rows(row)
    expect(visit.at("body")).to_have_attribute("data-turn", turn or "")


def test_errors_of_the_service_are_shown_and_can_be_tried_again(visit: Visit) -> None:
    visit.answer(LOOKUP, 503, json.dumps({"error": "too many requests at a time: 32; try again soon"}))
    visit.explorer("plain", ["/"])
    expect(visit.at("#failure-text")).to_have_text("Too many requests at a time: 32; try again soon.")
    expect(visit.at("#table")).to_be_hidden()
    visit.mend()
    visit.answer(LOOKUP, 500, "<h1>oops</h1>", "text/html")
    visit.press("Try again")
    expect(visit.at("#failure-text")).to_have_text("The service answered with status 500 and no explanation.")
    visit.mend()
    visit.answer(LOOKUP, 200, "{")
    visit.press("Try again")
    expect(visit.at("#failure-text")).to_have_text("The service's answer could not be read: it is not JSON.")
    visit.mend()
    visit.expected.append("ERR_FAILED")
    visit.page.route(LOOKUP, lambda route: route.abort())
    visit.press("Try again")
    expect(visit.at("#failure-text")).to_contain_text("The service did not answer.")
    visit.mend()
    visit.press("Try again")
    expect(visit.at("#rows th")).to_have_text(["/"])


def test_a_service_that_fails_from_the_start_can_be_tried_again(visit: Visit) -> None:
    visit.answer("**/v1/releases", 503, json.dumps({"error": "not yet"}))
    visit.explorer()
    expect(visit.at("#failure-text")).to_have_text("Not yet.")
    visit.button("Look up").click()  # there is nothing to look up in
    visit.mend()
    visit.press("Try again")
    expect(visit.at("#status")).to_have_text("20 keys, 95 % intervals")


def test_without_the_chart_library_there_is_still_the_table(visit: Visit) -> None:
    visit.expected.append("ERR_FAILED")
    visit.page.route("**/vendor/**", lambda route: route.abort())
    visit.explorer("plain", ["/"])
    expect(visit.at("#caption")).to_have_text("The chart could not be loaded; the table has all numbers.")
    expect(visit.at("#rows th")).to_have_text(["/"])
    visit.planner()
    expect(visit.at("#caption")).to_have_text("The chart could not be loaded; the table has the numbers.")
    expect(visit.at("#rows tr").first).to_be_visible()


def test_the_planner_shows_only_the_last_of_many_changes(visit: Visit) -> None:
    visit.planner()
    visit.page.evaluate(NO_RECALL)
    held = visit.hold("**/v1/compare?*")
    with visit.page.expect_request("**/v1/compare?*"):
        visit.at("#epsilon").fill("3")
    expect(visit.at("#status")).to_have_text("Computing…")
    expect(visit.at("#results")).to_have_attribute("aria-busy", "true")
    visit.at("#epsilon").fill("2")
    visit.settled()
    expect(visit.at("#command")).to_contain_text("--epsilon 2 ")
    with visit.page.expect_response("**/v1/compare?*"):
        held.pop().fulfill(json={})
    visit.settled()
    expect(visit.at("#command")).to_contain_text("--epsilon 2 ")
    visit.answer("**/v1/compare?*", 503, json.dumps({"error": "busy"}))
    visit.at("#epsilon").fill("1.5")
    visit.settled()
    expect(visit.at("#failure-text")).to_have_text("Busy.")
    expect(visit.at("#answers")).to_be_hidden()
    visit.mend()
    visit.press("Try again")
    expect(visit.at("#command")).to_contain_text("--epsilon 1.5 ")
