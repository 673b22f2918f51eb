"""The explorer: every control, and that what it shows is what the release says."""

from __future__ import annotations

import csv
import datetime
import io

from playwright.sync_api import expect

import sparsedp
from browsing import DAYS, Visit, answers, shown


def test_the_first_visit_shows_the_largest_keys_and_what_they_promise(visit: Visit) -> None:
    visit.explorer()
    top = visit.site.release("visits").top(20)
    columns = zip(top.keys, top.estimates, top.low, top.high, strict=True)
    visit.expect_rows([[str(key), shown(estimate), shown(low), shown(high)] for key, estimate, low, high in columns])
    visit.expect_drawn(20)
    expect(visit.at("#status")).to_have_text("20 keys, 95 % intervals")
    expect(visit.page).to_have_title("Explorer · Visits of example.org")
    expect(visit.at("#guarantee")).to_contain_text("the probability of any outcome")
    expect(visit.at("#coverage")).to_contain_text("of the 20 intervals shown, 1 or fewer miss on average")
    expect(visit.at("#facts dt")).to_have_text(["ε", "δ", "Mechanism", "Size", "Key"])
    visit.page.get_by_text("How it was made").click()
    expect(visit.at("#plan-facts")).to_contain_text("retrieval")
    visit.choose("How many", "10")
    visit.expect_drawn(10)
    expect(visit.at("#rows tr")).to_have_count(10)


def test_keys_are_compared_removed_and_kept_in_the_link(visit: Visit) -> None:
    visit.explorer("plain")
    expect(visit.at("#empty")).to_contain_text("Enter a key and choose Look up.")
    keys = ["/", "/never seen", "/docs"]
    rows = [[key, *row] for key, row in zip(keys, answers(visit.site.release("plain"), keys), strict=True)]
    for at, key in enumerate(keys):
        visit.look_up(key)
        visit.expect_rows(rows[: at + 1])
        visit.expect_drawn(at + 1)
    visit.look_up("/")  # a key that is there moves to the end, and is not shown twice
    visit.expect_rows([rows[1], rows[2], rows[0]])
    keys_there = "key=%5B%22%2Fnever+seen%22%5D&key=%5B%22%2Fdocs%22%5D&key=%5B%22%2F%22%5D"
    expect(visit.page).to_have_url(f"{visit.site.address}/#release=plain&show=keys&confidence=0.95&{keys_there}")
    visit.page.reload()
    visit.settled()
    visit.expect_rows([rows[1], rows[2], rows[0]])
    visit.press("Remove /never seen")
    visit.expect_rows([rows[2], rows[0]])
    expect(visit.button("Remove /docs")).to_be_focused()
    visit.press("Remove all keys")
    expect(visit.at("#table")).to_be_hidden()
    expect(visit.at("#figure")).to_be_hidden()
    expect(visit.at("#part-0")).to_be_focused()


def test_a_higher_confidence_gives_wider_intervals(visit: Visit) -> None:
    visit.explorer("plain", ["/jobs"])
    for words, confidence in (("50 %", 0.5), ("99.99 %", 0.9999)):
        visit.choose("Confidence of each interval", str(confidence))
        visit.expect_rows([["/jobs", *answers(visit.site.release("plain"), ["/jobs"], confidence)[0]]])
        expect(visit.at("#coverage")).to_contain_text(f"a probability of at least {words}")


def test_a_pasted_list_is_sorted_turned_and_downloaded(visit: Visit) -> None:
    visit.explorer("plain", show="list")
    expect(visit.at("#empty")).to_contain_text("Paste a list of keys")
    keys = [f"/page/{n}" for n in range(60)] + ['a "quoted", key']
    visit.at("#pasted").fill("\n".join([*keys[:30], "", *keys[30:]]))
    visit.press("Look up the list")
    release = visit.site.release("plain")
    rows = [[key, *row] for key, row in zip(keys, answers(release, keys), strict=True)]
    visit.expect_rows(rows[:50])
    visit.expect_drawn(25)
    expect(visit.at("#caption")).to_contain_text("The first 25 of 61 keys are drawn.")
    visit.button("Next").click()
    expect(visit.at("#range")).to_have_text("51 to 61 of 61 keys")
    visit.expect_rows(rows[50:])
    expect(visit.button("Next")).to_be_disabled()
    expect(visit.button("Previous")).to_be_focused()
    visit.button("Previous").click()
    expect(visit.at("#range")).to_have_text("1 to 50 of 61 keys")

    visit.button("estimate").click()
    expect(visit.at("#head th[aria-sort=descending]")).to_have_text("estimate")
    expect(visit.at("#rows tr").first.locator("td").first).to_have_text(shown(max(release.lookup(keys))))
    visit.button("key").click()
    expect(visit.at("#head th[aria-sort=ascending]")).to_have_text("key")
    expect(visit.at("#rows th").first).to_have_text("/page/0")
    visit.button("key").click()
    expect(visit.at("#rows th").first).to_have_text('a "quoted", key')

    header, *written = csv.reader(io.StringIO(visit.download()))
    assert header == ["key", "estimate", "low", "high"]
    assert [row[0] for row in written] == [keys[-1], *reversed(keys[:-1])]
    assert [float(row[1]) for row in written] == release.lookup([row[0] for row in written]).tolist()


def test_a_hundred_thousand_keys_are_looked_up_and_downloaded(visit: Visit) -> None:
    visit.explorer("plain", show="list")
    visit.paste("\n".join(f"/page/{n}" for n in range(100_000)))
    expect(visit.at("#mapping-title")).to_have_text("Pasted text: 100,000 rows")
    visit.press("Look up the list")
    expect(visit.at("#status")).to_have_text("100,000 keys, 95 % intervals")
    expect(visit.at("#range")).to_have_text("1 to 50 of 100,000 keys")
    expect(visit.at("#rows tr")).to_have_count(50)
    expect(visit.at("#progress")).to_be_hidden()
    assert visit.download().count("\n") == 100_001


def test_a_file_is_read_by_the_names_of_its_columns(visit: Visit) -> None:
    visit.explorer("by-day", show="list")
    visit.drop("keys.csv", b'\xef\xbb\xbfpage;n;Country;day\r\n"/";1;49;2026-11-01\r\n"/docs";2;33;2026-11-02\r\n')
    expect(visit.at("#mapping-title")).to_have_text("keys.csv: 3 rows")
    expect(visit.at("#header")).to_be_checked()
    for label, column in (("Column of day", "3"), ("Column of country", "2"), ("Column of page", "0")):
        expect(visit.page.get_by_label(label)).to_have_value(column)
    visit.press("Look up the list")
    keys = [(DAYS[0], 49, "/"), (DAYS[1], 33, "/docs")]
    first, second = answers(visit.site.release("by-day"), keys)
    visit.expect_rows([["2026-11-01", "49", "/", *first], ["2026-11-02", "33", "/docs", *second]])
    assert visit.download().startswith('"day","country","page","estimate","low","high"\r\n"2026-11-01","49","/",')
    visit.page.get_by_label("Column of country").select_option("1")
    visit.press("Look up the list")
    expect(visit.at("#rows tr").first.locator("td").first).to_have_text("1")
    visit.at("#header").uncheck()
    visit.button("Look up the list").click()
    expect(visit.at("#list-problem")).to_contain_text("record 1: day must be a date, such as 2026-11-01")


BAD = {
    "picture.csv": (b"\x89PNG\r\n\x1a\n\xff", "picture.csv is not text in UTF-8"),
    "nul.csv": (b"a\0b", "nul.csv is not a text file"),
    "empty.csv": (b" \n", "empty.csv is empty"),
    "open.csv": (
        b'day,country,page\n"2026',
        "open.csv cannot be read as CSV: a quotation mark in record 2 is never closed",
    ),
}


def test_a_bad_file_is_refused_with_the_reason(visit: Visit) -> None:
    visit.explorer("by-day", show="list")
    for name, (content, reason) in BAD.items():
        visit.upload(name, content)
        expect(visit.at("#list-problem")).to_contain_text(reason)
        expect(visit.at("#mapping")).to_be_hidden()
    visit.upload("short.csv", b"day,country,page\n2026-11-01,49\n")
    expect(visit.at("#mapping-title")).to_have_text("short.csv: 2 rows")
    visit.button("Look up the list").click()
    expect(visit.at("#list-problem")).to_contain_text("record 2 has 2 columns, but the key needs column 3")
    visit.at("#pasted").fill("2026-11-01,many,/")
    visit.button("Look up the list").click()
    expect(visit.at("#list-problem")).to_contain_text("record 1: country must be a whole number, got “many”")
    visit.at("#pasted").fill("")
    visit.button("Look up the list").click()
    expect(visit.at("#list-problem")).to_contain_text("there are no keys")
    expect(visit.at("#table")).to_be_hidden()


def test_a_key_of_several_columns_has_an_input_for_each(visit: Visit) -> None:
    visit.explorer("by-day")
    expect(visit.at("#part-0")).to_have_attribute("type", "date")
    expect(visit.at("#part-1")).to_have_attribute("inputmode", "numeric")
    expect(visit.at("#parts label")).to_have_text(["Day a date", "Country a whole number", "Page"])
    visit.at("#part-0").fill("2026-11-03")
    visit.at("#part-1").fill("forty-nine")
    visit.button("Look up").click()
    expect(visit.at("#key-problem")).to_have_text("country must be a whole number, got “forty-nine”")
    expect(visit.at("#part-1")).to_be_focused()
    visit.look_up("2026-11-03", "49", "/")
    expect(visit.at("#key-problem")).to_be_hidden()
    visit.expect_rows([["2026-11-03", "49", "/", *answers(visit.site.release("by-day"), [(DAYS[2], 49, "/")])[0]]])
    expect(visit.at("#chosen li")).to_have_text(["2026-11-03 · 49 · /×"])

    visit.choose("Release", "sales")
    expect(visit.at("#part-1")).to_have_attribute("type", "datetime-local")
    visit.at("#part-0").select_option("true")
    visit.at("#part-1").fill("2026-11-01T09:30:00")
    visit.press("Look up")
    key = (True, datetime.datetime(2026, 11, 1, 9, 30, tzinfo=datetime.timezone.utc))
    visit.expect_rows([["true", "2026-11-01T09:30:00Z", *answers(visit.site.release("sales"), [key])[0]]])


def test_a_series_is_a_line_and_a_row_for_each_release(visit: Visit) -> None:
    visit.explorer("daily", ["/"], ["/docs"])
    rows = []
    for key in ("/", "/docs"):
        for day in DAYS:
            release = sparsedp.load(visit.site.folder / "days" / f"{day}.sparsedp")
            rows.append([key, str(day), *answers(release, [key])[0]])
    visit.expect_rows(rows)
    visit.expect_drawn(2)
    expect(visit.at("#caption")).to_contain_text("a line with its band")
    expect(visit.at("#facts")).to_contain_text("4, from 2026-11-01 to 2026-11-04")
    assert visit.download().startswith('"key","release","estimate","low","high"\r\n"/","2026-11-01",')
    visit.show("Largest")
    expect(visit.at("#empty")).to_contain_text("A series has no list of names.")
    visit.choose("Release", "plain")
    visit.show("Largest")
    expect(visit.at("#empty")).to_contain_text("This release keeps no names")


def test_a_link_to_something_that_is_not_there_says_so(visit: Visit) -> None:
    visit.explorer("gone", ["a", "b"], confidence="2", n="7", show="nothing")
    expect(visit.at("#missing")).to_have_text("There is no release “gone” here; this is “visits”.")
    expect(visit.at("#status")).to_have_text("20 keys, 95 % intervals")
    visit.page.evaluate("location.hash = 'release=plain&key=[\"/\"]'")
    expect(visit.at("#rows th")).to_have_text(["/"])
    expect(visit.at("#missing")).to_be_hidden()


def test_without_names_nothing_is_listed(visit: Visit) -> None:
    visit.page.route(
        "**/top?*", lambda route: route.fulfill(json={"name": "visits", "confidence": 0.95, "results": []})
    )
    visit.explorer("visits", show="top")
    expect(visit.at("#empty")).to_have_text("This release keeps no name: no key was frequent enough for it.")
    expect(visit.button("Download CSV")).to_be_hidden()


def test_any_text_is_a_key_and_stays_text(visit: Visit) -> None:
    keys = ["<img src=x onerror=alert(1)>", "日本 🎉 e\u0301", "a" * 300]
    visit.explorer("plain", *([key] for key in keys))
    visit.expect_rows([[key, *row] for key, row in zip(keys, answers(visit.site.release("plain"), keys), strict=True)])
