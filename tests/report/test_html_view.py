"""The page in a real browser: reload keeps the view, search finds, a drawer leads to its packet in tshark."""

import re
import shlex
import shutil
import subprocess

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.helpers import recorded
from tests.helpers.browser import CHROMIUM, DRIVER, browser
from tests.helpers.recorded import CAPTURES
from tests.helpers.tiers import thorough_after

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and its driver are not installed")
CAPTURE = "rebalances.pcapng"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "page.html"
    path.write_text(recorded.page(CAPTURE), "utf-8")
    return path


@pytest.fixture(scope="module")
def opened():
    with browser() as tab:
        yield tab


@pytest.fixture
def blank(opened):
    opened.driver.get("about:blank")
    return opened


@pytest.fixture
def tab(blank, page):
    blank.open(page)
    return blank


def active(tab):
    return tab.driver.switch_to.active_element


def view(tab):
    """Return what a reader sees of the view: selection, chips, drawer, axis of the first chart."""
    return tab.run(
        "return [JSON.stringify(filter), "
        "[...document.querySelectorAll('.chip')].map((one) => one.textContent), "
        "document.getElementById('drawer').hidden, document.querySelector('#drawer h2')?.textContent, "
        "[...document.querySelectorAll('#traffic svg.chart text')].map((one) => one.textContent)]"
    )


@pytest.mark.parametrize("width", thorough_after(1, [390, 1280, 1920]))
def test_a_reload_keeps_the_view(blank, page, width):
    tab = blank
    tab.open(page, width)
    tab.run("narrowTo(STEP * 10, STEP * 30); change({ client: 1 })")
    tab.run("showDrawer({ exchange: EXAMPLES[3].request })")
    before = view(tab)
    assert before[2] is False
    tab.driver.refresh()
    assert view(tab) == before
    assert tab.complaints() == []
    assert tab.run("return document.documentElement.scrollWidth") <= width


def test_back_and_forth(tab):
    whole = view(tab)
    tab.run("narrowTo(STEP * 10, STEP * 30)")
    narrowed = view(tab)
    assert narrowed[4] != whole[4]  # the axis shows the selected time
    tab.driver.back()
    assert view(tab) == whole
    tab.driver.forward()
    assert view(tab) == narrowed
    active(tab).send_keys(Keys.ESCAPE)
    assert view(tab) == whole


@pytest.mark.parametrize(
    "address",
    thorough_after(3, ["from=9&to=2", "drawer=%7B", "%E0%A4%A", "client=999", "group=nobody", "from=x"]),
)
def test_an_address_may_be_anything(blank, page, address):
    blank.driver.get(f"{page.as_uri()}#{address}")
    assert blank.run("return isBlank() && document.getElementById('drawer').hidden")
    assert blank.complaints() == []


def test_search_finds_what_has_a_name(tab):
    named = tab.run(
        "return [clientName(0), DATA.topics[0].name, DATA.groups.rows[0].name, "
        "errorName(Number(Object.keys(DATA.error_names).find((code) => code !== '0')))]"
    )
    for kind, name in zip(("client", "topic", "group", "error"), named, strict=True):
        tab.run("document.body.focus(); change({ ...BLANK }); closeDrawer()")
        tab.driver.find_element("css selector", "body").send_keys("/")
        assert active(tab).get_attribute("class") == "search"
        active(tab).send_keys(name)
        rows = tab.run(
            "return [...document.querySelectorAll('.hits li')].map((one) => [one.firstChild.textContent, "
            "one.children[1].textContent])"
        )
        assert [kind, name] in rows
        for _ in range(rows.index([kind, name])):
            active(tab).send_keys(Keys.ARROW_DOWN)
        active(tab).send_keys(Keys.ENTER)
        if kind == "error":
            assert not tab.run("return document.getElementById('drawer').hidden")
        else:
            assert tab.run(TEXTS, ".chip span") == [f"{kind} {name}"]
    active(tab).send_keys(Keys.ESCAPE)


def test_nothing_found_is_one_sentence(tab):
    tab.driver.find_element("css selector", ".search").send_keys("no such name")
    assert tab.run(TEXTS, ".hits li") == ["Nothing of this name is in the capture."]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_a_drawer_leads_to_its_packet_in_tshark(tab):
    tab.run("document.querySelector('#errors .look').click()")
    if not tab.run("return 'exchange' in view.drawer"):
        tab.run("document.querySelector('#drawer .row .look').click()")
    codes = tab.run(TEXTS, "#drawer code")
    row = tab.run("return EXAMPLES[EXAMPLE_OF.get(view.drawer.exchange)]")
    (command,) = (code for code in codes if code.startswith("tshark") and f"== {row['request']}'" in code)
    words = shlex.split(command)
    assert words[:2] == ["tshark", "-r"]
    assert words[2].endswith(CAPTURE)
    done = subprocess.run(
        [words[0], "-r", CAPTURES / CAPTURE, *words[3:]], capture_output=True, text=True, check=True
    )
    assert re.findall(r"^Frame (\d+):", done.stdout, re.MULTILINE) == [str(row["request"])]
    assert f"Correlation ID: {row['correlation_id']}" in done.stdout
    assert any(
        code.startswith("kdissect slice") and f"{row['connection']}#{row['ordinal']}" in code
        for code in codes
    )
    assert any(code.startswith("kdissect dump") and "--limit 1" in code for code in codes)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_a_drawer_leads_to_its_connection_in_tshark(tab):
    tab.run("showDrawer({ exchange: EXAMPLES.find((row) => row.error_code && row.group_id).request })")
    row = tab.run("return EXAMPLES[EXAMPLE_OF.get(view.drawer.exchange)]")
    (command,) = (
        code for code in tab.run(TEXTS, "#drawer code") if code.startswith("tshark") and "addr" in code
    )
    words = shlex.split(command)
    numbers = ("-T", "fields", "-e", "frame.number", "-e", "tcp.stream")
    done = subprocess.run(
        [words[0], "-r", CAPTURES / CAPTURE, *words[3:], *numbers], capture_output=True, text=True, check=True
    )
    frames = dict(line.split("\t") for line in done.stdout.splitlines())
    assert {str(row["request"]), str(row["response"])} <= set(frames)
    (stream,) = set(frames.values())  # all of one connection, and all of it
    whole = subprocess.run(
        ["tshark", "-r", CAPTURES / CAPTURE, "-Y", f"tcp.stream == {stream}", *numbers],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert whole.stdout == done.stdout


def test_a_drawer_shows_request_and_response_as_fields(tab):
    tab.run("showDrawer({ exchange: EXAMPLES.find((row) => row.error_code && row.group_id).request })")
    row = tab.run("return EXAMPLES[EXAMPLE_OF.get(view.drawer.exchange)]")
    shown = dict(zip(tab.run(TEXTS, "#drawer dt"), tab.run(TEXTS, "#drawer dd"), strict=False))
    assert shown["correlation id"] == str(row["correlation_id"])
    assert shown["group"] == row["group_id"]
    assert row["error_name"] in " ".join(tab.run(TEXTS, "#drawer dd"))
    assert len(tab.run(TEXTS, "#drawer .times tr")) == 4
    assert tab.run("return document.querySelectorAll('#drawer .near li').length") > 1


def test_the_sequence_of_a_connection_leads_to_its_exchanges(tab):
    tab.run("document.querySelector('#connections .look[aria-label^=sequence]').click()")
    messages = tab.run("return document.querySelectorAll('#drawer .message').length")
    assert messages > 2
    first = tab.driver.find_element("css selector", "#drawer .message")
    tab.run("arguments[0].focus()", first)
    active(tab).send_keys(Keys.ENTER)
    assert tab.run("return 'exchange' in view.drawer")
    assert active(tab).text == "Back"
    active(tab).send_keys(Keys.ENTER)
    assert tab.run("return 'connection' in view.drawer")


def test_a_chart_answers_to_the_keyboard(tab):
    chart = tab.driver.find_element("css selector", "#traffic svg.chart")
    chart.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert tab.run("return !document.getElementById('tip').hidden")
    chart.send_keys(Keys.SHIFT + Keys.ARROW_RIGHT + Keys.ARROW_RIGHT + Keys.NULL)
    chart.send_keys(Keys.ENTER)
    assert tab.run("return [filter.from, filter.to]") == [1, 4]


CHARTS = ("#traffic svg.chart", "canvas.heat", "svg.members", "[data-lag] svg.chart")


@pytest.mark.parametrize("chart", thorough_after(2, CHARTS))
def test_a_drag_across_a_chart_shows_its_range_and_zooms(tab, chart):
    drawn = tab.driver.find_element("css selector", chart)
    tab.run("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", drawn)
    drag = ActionChains(tab.driver, duration=30).move_to_element_with_offset(drawn, 0, 0).click_and_hold()
    drag.move_by_offset(40, 0).move_by_offset(40, 0).perform()
    left, width = tab.run(
        "const box = document.querySelector('.band').getBoundingClientRect(); return [box.left, box.width]"
    )
    middle = drawn.rect["x"] + drawn.rect["width"] / 2
    assert left <= middle <= middle + 80 <= left + width
    shown = tab.run(TEXTS, "#tip b")
    ActionChains(tab.driver).release().perform()
    assert tab.run(TEXTS, ".chip span") == shown
    assert tab.run(
        "return [document.querySelectorAll('.band').length, document.getElementById('drawer').hidden]"
    ) == [
        0,
        True,
    ]
    assert tab.complaints() == []


@pytest.mark.parametrize("chart", thorough_after(2, CHARTS))
def test_a_range_that_is_chosen_by_keys_leaves_the_focus_on_its_chart(tab, chart):
    tab.driver.find_element("css selector", chart).send_keys(Keys.ARROW_RIGHT)
    name = active(tab).get_attribute("aria-label")
    active(tab).send_keys(Keys.SHIFT + Keys.ARROW_RIGHT + Keys.ARROW_RIGHT + Keys.NULL)
    assert tab.run("return document.querySelectorAll('.band').length") == 1
    active(tab).send_keys(Keys.ENTER)
    assert tab.run("return [filter.from, filter.to]") == [0, 3]
    assert active(tab).get_attribute("aria-label") == name
    active(tab).send_keys(Keys.ARROW_RIGHT, Keys.ENTER)
    assert not tab.run("return document.getElementById('drawer').hidden")
    active(tab).send_keys(Keys.ESCAPE)
    assert active(tab).get_attribute("aria-label") == name


def test_lag_and_members_share_a_time_line(tab):
    starts = tab.run(
        "const block = [...document.querySelectorAll('.block')].find((one) => "
        "one.querySelector('.members') && one.querySelector('[data-lag] svg.chart')); "
        "return block && [...block.querySelectorAll('svg.chart > svg.inside')]"
        ".map((one) => one.getAttribute('x'))"
    )
    assert starts
    assert len(set(starts)) == 1


def test_bytes_by_topic_add_up(tab):
    assert tab.run("return document.querySelector('#topics svg.chart').getAttribute('aria-label')") == (
        "bytes of records by topic"
    )


def test_on_a_telephone_the_figures_that_matter_stay(blank, page):
    blank.open(page, 390)
    seen = blank.run(
        "return [...document.querySelectorAll('#profile tr:nth-child(1) td')].filter((one) => "
        "one.offsetWidth && one.getBoundingClientRect().right <= 390).map((one) => one.dataset.key)"
    )
    assert {"api", "n", "p99", "errors"} <= set(seen)
