"""The page in a real browser: quiet, offline, drawn, with the numbers of plain loops over the exchanges."""

import itertools
import re
from dataclasses import replace

import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import EMPTY, summarise
from kdissect.report.render.html.page import render_page
from kdissect.report.timeline.grid import grid_over
from kdissect.text import format_duration
from tests.helpers import recorded
from tests.helpers.browser import CHROMIUM, DRIVER, browser
from tests.helpers.tiers import spread
from tests.report import plain_report as oracle
from tests.report.random_page import random_page
from tests.report.render.html.test_page import HOSTILE, with_hostile_names

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and its driver are not installed")


@pytest.fixture(scope="module")
def tab():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write the pages; give their folder, and what the random one was made of."""
    folder = tmp_path_factory.mktemp("pages")
    tables, grid, _, _ = random_page()
    tables = with_hostile_names(tables)
    partial = summarise(tables, grid)
    facts = CaptureFacts(
        files=("a.pcap", "b.pcapng"),
        first_time_ns=grid.start_ns,
        last_time_ns=grid.start_ns + grid.step_ns * grid.steps,
    )
    (folder / "random.html").write_text(
        render_page(make_page_data(build_report(partial, facts), partial, grid)), "utf-8"
    )
    (folder / "long.html").write_text(render_page(with_long_sentences(partial, facts, grid)), "utf-8")
    for name in ("rebalances", "transactions"):
        (folder / f"{name}.html").write_text(recorded.page(f"{name}.pcapng"), "utf-8")
    (folder / "days.html").write_text(render_page(over_days(recorded.data("transactions.pcapng"))), "utf-8")
    (folder / "empty.html").write_text(
        render_page(make_page_data(build_report(EMPTY, CaptureFacts()), EMPTY, grid_over(None, None))),
        "utf-8",
    )
    return folder, tables, grid


def with_long_sentences(partial, facts, grid):
    """Return a page of evidence, warnings and uncertainties that take a few hundred characters each."""
    data = make_page_data(
        build_report(partial, replace(facts, warnings=(sentence("warning"),))), partial, grid
    )
    data["findings"][0]["evidence"][0]["detail"] = sentence("evidence")
    data["doubts"] = [{"name": "lost_bytes", "count": 1, "of": 2, "means": sentence("doubt")}]
    data["traffic"]["protocols"] = [{"protocol": "none", "connections": 190, "bytes": 0}]
    return data


def over_days(data):
    """Return data of which each step lasts an hour, and the capture for two days."""
    hour_ns = 3600 * 10**9
    capture = data["capture"] | {"last": (data["grid"]["steps"] - 1) * hour_ns}
    return data | {"capture": capture, "grid": data["grid"] | {"step": hour_ns}}


def sentence(kind):
    return (
        f"the {kind} names " + "a host and then " * 16 + f"the cause of the {kind} in the middle" + "." * 60
    )


@pytest.fixture
def random(tab, made):
    tab.open(made[0] / "random.html")
    return tab


@pytest.fixture(scope="module")
def functions(tab, made):
    """Show some page, all of which have the same functions: for tests that call these alone."""
    tab.open(made[0] / "random.html")
    return tab.run


def exchanges(made, rule=lambda row: True):
    """Return rows of the random exchanges, with the facts of their connections and their step."""
    _, tables, grid = made
    connections = {row["connection"]: row for row in tables["connections"].to_pylist()}
    found = []
    for row in tables["exchanges"].to_pylist():
        connection = connections[row["connection"]]
        began = row["response_first_ns"] if row["request_first_ns"] is None else row["request_first_ns"]
        row |= {
            "step": (began - grid.start_ns) // grid.step_ns,
            "client": oracle.client_of(row, connection)[0],
            "host": connection["client_host"],
            "server": f"{connection['server_host']}:{connection['server_port']}",
        }
        if rule(row):
            found.append(row)
    return found


def cells(tab, section, key, *columns):
    """Return the text of columns of a section's table by the text of column `key`, all rows shown."""
    return dict(
        tab.run(
            """const [id, key, columns] = arguments;
            const more = document.querySelector(`#${id} .more-rows`);
            if (more && more.textContent.startsWith('Show all')) more.click();
            const text = (row, name) => {
              const cell = row.querySelector(`[data-key="${name}"]`);
              return (cell.querySelector('.pick') || cell).textContent;
            };
            const rows = [...document.querySelectorAll(`#${id} tbody tr`)];
            return rows.map((row) => [text(row, key), columns.map((name) => text(row, name))]);""",
            section,
            key,
            list(columns),
        )
    )


def figure(tab, name):
    """Return a figure of the selection as a number."""
    text = tab.run(
        """const figures = [...document.querySelectorAll('#overview .figure')];
        const named = (one) => one.querySelector('.name').textContent === arguments[0];
        return figures.find(named).querySelector('.value').textContent;""",
        name,
    )
    return 0 if text == "none" else int(text.replace(",", ""))


def number(text):
    return 0 if text == "–" else int(text.replace(",", ""))


UNITS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}


def ns(text):
    amount, unit = text.split(" ")
    return float(amount) * UNITS[unit]


def by(rows, *names):
    """Return lists of rows by the texts of columns."""
    return oracle.grouped(rows, lambda row: "/".join(str(row[name]) for name in names))


@pytest.mark.parametrize("name", ["random", "rebalances", "transactions", "empty"])
def test_quiet_and_offline(tab, made, name):
    page = made[0] / f"{name}.html"
    tab.open(page)
    without_incidents = {"transactions": 14, "empty": 3}
    sections = tab.run("return document.querySelectorAll('section').length")
    assert sections == without_incidents.get(name, 15)
    asked = [url for url in tab.requests() if not url.startswith("data:")]
    assert asked == [page.resolve().as_uri()]
    assert tab.complaints() == []


def test_charts_are_drawn(tab, made):
    tab.open(made[0] / "rebalances.html")
    coloured = tab.run(
        """const canvas = document.querySelector('canvas.heat');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let painted = 0;
        for (let at = 3; at < data.length; at += 4) painted += data[at] > 0;
        return painted / (data.length / 4);"""
    )
    assert 0.02 < coloured < 0.9
    drawn = tab.run(
        "return [...document.querySelectorAll('#bar path, #traffic path, #latency path, .spark "
        "path')].map((one) => (one.getAttribute('d') || '').length)"
    )
    assert len(drawn) > 20
    assert sum(length > 30 for length in drawn) > 15
    assert not any(
        "NaN" in (path or "")
        for path in tab.run(
            "return [...document.querySelectorAll('svg [d]')].map((one) => one.getAttribute('d'))"
        )
    )
    group = "[data-group='eager-python']"
    expected = next(
        row for row in recorded.data("rebalances.pcapng")["groups"]["rows"] if row["name"] == "eager-python"
    )
    assert len(tab.run(f'return [...document.querySelectorAll("{group} .member")].map(() => 1)')) == 4
    assert len(
        tab.run(f'return [...document.querySelectorAll("{group} rect.rebalance")].map(() => 1)')
    ) == len(expected["rebalances"])


def test_times_of_several_days_have_their_dates(tab, made):
    tab.open(made[0] / "days.html")

    def texts(selector):
        return tab.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
        )

    assert texts("#top .meta span")[0] == "2026-11-21 02:35:41.707 – 2026-11-23 06:35:41.500 UTC"
    assert {"2026-11-22", "2026-11-23", "12:00:00"} <= set(texts("#traffic svg.chart text"))
    for last, until in ((20, "22:35:41"), (40, "2026-11-22 18:35:41")):
        tab.run("narrowTo(STEP * 9, STEP * arguments[0] - 1)", last)
        assert texts(".chip span")[0] == f"2026-11-21 11:35:41 – {until}"
    assert tab.complaints() == []


def test_transactions_are_drawn(tab, made):
    tab.open(made[0] / "transactions.html")
    outcomes = recorded.data("transactions.pcapng")["transactions"]["rows"]
    for outcome in ("commit", "abort"):
        drawn = tab.run(f"return document.querySelectorAll('rect.transaction.{outcome}').length")
        assert drawn == sum(row["outcomes"][outcome] for row in outcomes) > 0


def test_without_a_selection_percentiles_are_the_report_s_own(random, made):
    rows = [row for row in exchanges(made) if oracle.sound(row) and not row["idle_wait"]]
    found = cells(random, "profile", "api", "p50", "max")
    for api, some in by(rows, "api_name").items():
        exact = oracle.percentile([oracle.counted_ns(row) for row in some], 0.5)
        assert ns(found[api][0]) == pytest.approx(exact, rel=0.01)
        assert ns(found[api][1]) == pytest.approx(max(oracle.counted_ns(row) for row in some), rel=0.006)


def drag(tab, start, stop):
    """Drag over the bar from one share of its width to another, with a real pointer."""
    from selenium.webdriver.common.action_chains import ActionChains

    brush = tab.driver.find_element("css selector", ".brush")
    width = brush.rect["width"]
    ActionChains(tab.driver, duration=30).move_to_element_with_offset(
        brush, (start - 0.5) * width, -10
    ).click_and_hold().move_by_offset((stop - start) * width / 2, 0).move_by_offset(
        (stop - start) * width / 2, 0
    ).release().perform()


def check_against_rows(tab, rows):
    """Compare figures and tables with rows of exchanges."""
    failed = [row for row in rows if row["error_code"]]
    assert figure(tab, "Exchanges") == len(rows)
    assert figure(tab, "Responses with errors") == len(failed)
    assert figure(tab, "Unanswered") == sum(row["status"] == "unanswered" for row in rows)
    for section, key, column in (("profile", "api", "api_name"), ("brokers", "broker", "server")):
        found = cells(tab, section, key, "n", "errors", "p50", "mean")
        groups = by(
            [row for row in rows if row["status"] != "orphan_response"] if key == "api" else rows, column
        )
        for name, some in groups.items():
            calls, errors, p50, mean = found[name]
            assert (number(calls), number(errors)) == (
                len(some),
                sum(bool(row["error_code"]) for row in some),
            )
            latencies = [oracle.counted_ns(row) for row in some if oracle.sound(row) and not row["idle_wait"]]
            if latencies:
                assert ns(p50) == pytest.approx(oracle.percentile(latencies, 0.5), rel=0.07)
                assert ns(mean) == pytest.approx(sum(latencies) / len(latencies), rel=0.006)
        assert sum(number(row[0]) for row in found.values()) == len(rows)


def test_the_brush_narrows_everything_to_what_began_in_it(random, made):
    drag(random, 0.02, 0.05)
    begin, end = random.run("return [filter.from, filter.to]")
    assert 0 < end - begin < made[2].steps / 2
    rows = exchanges(made, lambda row: begin <= row["step"] < end)
    assert 0 < len(rows) < len(exchanges(made))
    check_against_rows(random, rows)
    assert random.run("return document.querySelector('.chip').textContent").count(":") == 4
    random.run("document.querySelector('.chip').click()")
    check_against_rows(random, exchanges(made))


def test_the_keyboard_moves_the_range(random, made):
    from selenium.webdriver.common.keys import Keys

    for side, keys in (("to", [Keys.HOME, Keys.ARROW_RIGHT]), ("from", [Keys.ARROW_RIGHT])):
        for key in keys:
            random.driver.find_element("css selector", f".handle.{side}").send_keys(key)
    assert random.run("return [filter.from, filter.to]") == [1, 2]
    assert random.run("return document.activeElement.getAttribute('aria-valuenow')") == "1"
    check_against_rows(random, exchanges(made, lambda row: row["step"] == 1))


def test_rows_narrow_the_rest(random, made):
    clients = cells(random, "clients", "client", "n")
    random.run(
        "[...document.querySelectorAll('#clients .pick')].find((one) => one.textContent === "
        "'client-1').click()"
    )
    chosen = random.run("return DATA.clients[filter.client]")
    rows = exchanges(made, lambda row: (row["client"], row["host"]) == (chosen["id"], chosen["host"]))
    check_against_rows(random, rows)
    assert cells(random, "clients", "client", "n").keys() == clients.keys()  # others can still be chosen
    random.run("[...document.querySelectorAll('#brokers .pick')][0].click()")
    server = random.run("return brokerName(filter.broker)")
    both = [row for row in rows if row["server"] == server]
    assert figure(random, "Exchanges") == len(both) < len(rows)
    random.run("[...document.querySelectorAll('.chips .link')].at(-1).click()")
    assert figure(random, "Exchanges") == len(exchanges(made))


def test_the_first_example_of_an_error_is_one_of_the_selection(random, made):
    details = (
        "return [...document.querySelectorAll('#errors td[data-key=detail]')].map((one) => one.innerText)"
    )
    whole = random.run(details)
    assert len(whole) > 1
    clients = random.run(
        "return [...new Set(DATA.failures.map((row) => row[3]))].map((one) => [one, clientName(one)])"
    )
    assert len(clients) > 1
    for client, name in clients:
        random.run(f"change({{ client: {client} }})")
        narrowed = random.run(details)
        assert narrowed
        assert [text for text in narrowed if name not in text] == []
        assert all("#" in text for text in narrowed)  # the packet of the example


@pytest.mark.parametrize("name", ["random", "rebalances"])
def test_figures_that_matter_are_on_a_telephone_without_scrolling(tab, made, name):
    tab.open(made[0] / f"{name}.html", 390)
    for section, key in (("connections", "errors"), ("split", "broker")):
        right = tab.run(
            f"return document.querySelector('#{section} th[data-key={key}]').getBoundingClientRect().right"
        )
        assert 0 < right <= 390, section


def test_a_connection_narrows_the_rest(random, made):
    random.run("[...document.querySelectorAll('#connections .pick')][0].click()")
    chosen = random.run(
        "const row = CONNECTIONS.get(filter.connection); return [row.client_host, row.client_port]"
    )
    connections = {row["connection"]: row for row in made[1]["connections"].to_pylist()}
    rows = exchanges(
        made,
        lambda row: (
            [connections[row["connection"]][name] for name in ("client_host", "client_port")] == chosen
        ),
    )
    assert rows
    check_against_rows(random, rows)


def test_a_topic_narrows_what_it_can_and_the_page_says_what_it_cannot(random, made):
    _, tables, _ = made
    names = {row["topic_id"]: row["topic"] for row in tables["names"].to_pylist()}
    random.run(
        "[...document.querySelectorAll('#topics .pick')].find((one) => one.textContent === 'topic-2').click()"
    )
    named = {
        (row["connection"], row["ordinal"])
        for row in tables["partitions"].to_pylist()
        if (row["topic"] or names.get(row["topic_id"])) == "topic-2"
    }
    rows = exchanges(made, lambda row: (row["connection"], row["ordinal"]) in named)
    assert figure(random, "Exchanges") == len(rows)
    found = cells(random, "brokers", "broker", "n", "p50", "mean")
    for name, some in by(rows, "server").items():
        calls, p50, mean = found[name]
        latencies = [oracle.counted_ns(row) for row in some if oracle.sound(row) and not row["idle_wait"]]
        assert number(calls) == len(some)
        assert ns(p50) == pytest.approx(oracle.percentile(latencies, 0.5), rel=0.07)
        assert ns(mean) == pytest.approx(sum(latencies) / len(latencies), rel=0.006)
    told = random.run(
        "return [...document.querySelectorAll('.unmoved')].map((one) => "
        "[one.closest('section').id, one.textContent])"
    )
    assert {"errors", "connections"} <= {section for section, _ in told}
    assert "latency" not in {section for section, _ in told}
    assert all("topic" in text for _, text in told)


def test_percentiles_of_topics_are_those_of_their_exchanges(random, made):
    _, tables, _ = made
    names = {row["topic_id"]: row["topic"] for row in tables["names"].to_pylist()}
    named = {
        (row["topic"] or names.get(row["topic_id"]), row["connection"], row["ordinal"])
        for row in tables["partitions"].to_pylist()
    }
    rows = [row for row in exchanges(made) if oracle.sound(row) and not row["idle_wait"]]
    found = cells(random, "topics", "topic", "write", "fetch")
    seen = 0
    for at, api in enumerate(("Produce", "Fetch")):
        for topic, texts in found.items():
            latencies = [
                oracle.counted_ns(row)
                for row in rows
                if row["api_name"] == api and (topic, row["connection"], row["ordinal"]) in named
            ]
            if latencies:
                p99, p50 = (ns(text) for text in texts[at].split("p50 "))
                assert p99 == pytest.approx(oracle.percentile(latencies, 0.99), rel=0.01)
                assert p50 == pytest.approx(oracle.percentile(latencies, 0.5), rel=0.01)
                seen += 1
    assert seen > 4


def test_an_axis_of_counts_has_whole_numbers(functions):
    ticks = "return roundTicks(arguments[0], 2, {count, size, rate}[arguments[1]])"
    assert [functions(ticks, 1, label) for label in ("count", "size", "rate")] == [[1], [1], [0.5, 1]]
    assert functions(ticks, 3, "count") == [2]
    assert functions(ticks, 1100, "size") == [512, 1024]


@pytest.mark.parametrize(
    ("hours", "text"), [(47, "47 h 00 m"), (47.6, "2 d 00 h"), (51.03, "2 d 03 h"), (24 * 40, "40 d 00 h")]
)
def test_durations_of_days_are_those_of_the_text(functions, hours, text):
    ns_ = round(hours * 3600 * 10**9)
    assert functions("return duration(arguments[0])", ns_) == text
    assert format_duration(ns_) == text.replace(" ", "")


def test_characters_without_a_glyph_are_escapes(functions):
    hidden = "\u061c\u00ad\u180e\u202e\ue000\U000e0041"
    shown = "\\u061c\\u00ad\\u180e\\u202e\\ue000\\U000e0041"
    assert functions("return shown(arguments[0])", f"a{hidden}ä→😀b") == f"a{shown}ä→😀b"


CONTRASTS = """
const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
  .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (node) => {
  const own = node ? getComputedStyle(node).backgroundColor : 'rgb(255, 255, 255)';
  return own === 'rgba(0, 0, 0, 0)' ? ground(node.parentElement) : own;
};
const all = [...document.querySelectorAll('main *, header *, footer *')];
const isTold = (part) => part.nodeType === Node.TEXT_NODE && part.textContent.trim();
const told = all.filter((node) => !node.closest('svg') && [...node.childNodes].some(isTold));
return told.map((node) => {
  const [dark, bright] = [light(getComputedStyle(node).color), light(ground(node))].sort((a, b) => a - b);
  return [(bright + 0.05) / (dark + 0.05), node.className];
});
"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_stands_out_from_its_ground(tab, made, dark):
    tab.open(made[0] / "rebalances.html", dark=dark)
    least, named = min(tab.run(CONTRASTS))
    assert least >= 4.5, named  # WCAG 2.2, 1.4.3


def test_hostile_names_stay_text(random):
    assert random.run("return document.querySelectorAll('img').length") == 0
    shown = random.run("return [...document.querySelectorAll('#topics .pick')].map((one) => one.textContent)")
    assert HOSTILE.replace("\u2028", "\\u2028") in shown
    assert random.complaints() == []


@pytest.fixture(scope="module")
def long_text(tab, made):
    tab.open(made[0] / "long.html")
    return tab.run("return document.querySelector('main').textContent")


@pytest.mark.parametrize("kind", ["evidence", "warning", "doubt"])
def test_long_sentences_keep_their_middle(long_text, kind):
    assert sentence(kind) in long_text


def test_connections_without_data_are_called_so(long_text):
    assert "190 connections without data (0 B)" in long_text


def test_figures_lead_to_packets(random, made):
    random.run(
        "document.querySelector('#brokers .look').focus(); document.querySelector('#brokers .look').click()"
    )
    codes = random.run("return [...document.querySelectorAll('#drawer code')].map((one) => one.textContent)")
    packets = {int(found) for code in codes for found in re.findall(r"^frame\.number == (\d+)$", code)}
    server = random.run("return document.querySelector('#brokers .pick').textContent")
    expected = {
        row["request_packet"] or row["response_packet"]
        for row in exchanges(made, lambda row: row["server"] == server)
    }
    assert packets
    assert packets <= expected
    host, port = server.split(":")
    assert any(f"(ip.addr == {host} && tcp.port == {port})" in code for code in codes)
    random.driver.switch_to.active_element.send_keys("\ue00c")
    assert random.run("return document.getElementById('drawer').hidden")
    assert random.run("return document.activeElement.className") == "look"


def test_a_press_on_a_chart_leads_to_what_began_then(random, made):
    from selenium.webdriver.common.action_chains import ActionChains

    chart = random.driver.find_element("css selector", "#traffic svg.chart")
    random.run("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", chart)
    x = random.run("return timeScale(widthOf(document.querySelector('#traffic .panel')))(2.5 * STEP)")
    ActionChains(random.driver, duration=30).move_to_element_with_offset(
        chart, x - chart.rect["width"] / 2, 0
    ).click().perform()
    codes = random.run("return [...document.querySelectorAll('#drawer code')].map((one) => one.textContent)")
    packets = {int(found) for code in codes for found in re.findall(r"^frame\.number == (\d+)$", code)}
    began = {
        row["request_packet"] or row["response_packet"]
        for row in exchanges(made, lambda row: row["step"] == 2)
    }
    assert len(packets) > 3
    assert packets <= began


@pytest.mark.parametrize(("width", "dark"), spread(itertools.product([400, 1280, 1920], [False, True]), 2))
@pytest.mark.parametrize("name", ["random", "rebalances"])
def test_nothing_is_wider_than_the_window(tab, made, width, dark, name):
    tab.open(made[0] / f"{name}.html", width, dark=dark)
    assert tab.run("return document.documentElement.scrollWidth") <= width
    assert tab.run("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
    ground = tab.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == dark


def test_the_theme_can_be_chosen(random):
    random.run("document.querySelector('#top button').click()")
    assert random.run("return document.documentElement.dataset.theme") == "dark"


def test_paper_shows_sections_and_no_controls(tab, made):
    tab.open(made[0] / "rebalances.html", dark=True)
    tab.media("print", dark=True)
    tab.run("dispatchEvent(new Event('beforeprint'))")
    hidden = tab.run(
        "return ['.nav', '.look:not(.numbered)', '.picker', '#top button'].map((one) => "
        "getComputedStyle(document.querySelector(one)).display)"
    )
    assert set(hidden) == {"none"}
    assert tab.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("return [...document.querySelectorAll('details.finding')].every((one) => one.open)")
    assert (
        tab.run("return [...document.querySelectorAll('h2')].filter((one) => one.offsetHeight > 0).length")
        == 15
    )


def test_everything_that_can_be_pressed_has_a_name(tab, made):
    tab.open(made[0] / "rebalances.html")
    nameless = tab.run(
        "return [...document.querySelectorAll('button, a, select, "
        "[role=slider]')].filter((one) => !(one.getAttribute('aria-label') || "
        "one.textContent).trim()).map((one) => one.outerHTML.slice(0, 80))"
    )
    assert nameless == []


def test_nothing_found_is_said_in_words(tab, made):
    said = "return [...document.querySelectorAll('.empty')].map((one) => one.closest('section').id)"
    tab.open(made[0] / "empty.html")
    assert {"findings", "connections"} <= set(tab.run(said))
    assert "nothing to judge" in tab.run("return document.querySelector('#findings .empty').textContent")
    tab.open(made[0] / "random.html")
    tab.run("change({ from: STEPS - 2, to: STEPS - 1 })")
    assert {"split", "profile", "errors", "clients", "brokers", "topics"} <= set(tab.run(said))
