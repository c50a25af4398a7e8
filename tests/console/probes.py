"""Scripts that run in a document before its own: they observe it, or stand in for answers of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.console.browser import Browser

LONG_TASKS = """{
    window.longTasks = [];
    const keep = (list) => longTasks.push(...list.getEntries().map(({ startTime, duration }) => ({ startTime, duration })));
    new PerformanceObserver(keep).observe({ type: 'longtask', buffered: true });
}"""
"""`longTasks`: what kept the document from answering for more than 50 ms, in ms since it was asked for."""

LARGEST_PAINT = """{
    window.largestPaint = 0;
    const keep = (list) => { largestPaint = list.getEntries().at(-1).startTime; };
    new PerformanceObserver(keep).observe({ type: 'largest-contentful-paint', buffered: true });
}"""
"""`largestPaint`: when the largest element so far was painted, in the same ms."""

FEED_REQUESTS = """{
    window.feedRequests = { asked: 0, waiting: 0, others: 0, open: 0 };
    const real = window.fetch.bind(window);
    window.fetch = (input, init) => {
        const answer = real(input, init);
        if (!String(input).includes('/v1/events?') || !String(input).includes('wait=')) {
            feedRequests.others += 1;
            feedRequests.open += 1;
            const answered = () => { feedRequests.open -= 1; };
            answer.then(answered, answered);
            return answer;
        }
        feedRequests.asked += 1;
        feedRequests.waiting += 1;
        const end = () => { feedRequests.waiting -= 1; };
        answer.then(end, end);
        return answer;
    };
}"""
"""`feedRequests`: how many requests that wait for news this document has made, how many of them have no answer yet, how many
`others` it has made, and how many of those are `open`: without an answer."""

_FIRST_ANSWERS = """{
    const real = window.fetch.bind(window);
    const answers = ANSWERS.values();
    window.fetch = (input, init) => {
        if (!String(input).includes(PATH)) return real(input, init);
        const { value, done } = answers.next();
        if (done) return real(input, init);
        const [status, text] = value;
        if (!status) return Promise.reject(new TypeError('Failed to fetch'));
        return Promise.resolve(new Response(text, { status, headers: { 'Content-Type': 'application/json' } }));
    };
}"""

_LOGS = """{
    window.askedForLogs = [];
    const real = window.fetch.bind(window);
    const encoder = new TextEncoder();
    const answers = (function* () { ANSWERS })();
    window.fetch = (input, init) => {
        if (!String(input).includes('/v1/job/logs/')) return real(input, init);
        askedForLogs.push(new URL(input, location).search);
        window.logsAskedAt ??= performance.now();
        const { pieces, breaks } = answers.next().value;
        const body = new ReadableStream({
            // A task of its own for each piece, as what comes from a network has.
            async pull(controller) {
                await new Promise((resolve) => setTimeout(resolve));
                const { value, done } = pieces.next();
                if (!done) controller.enqueue(encoder.encode(value));
                else if (breaks) controller.error(new TypeError('network error'));
                else controller.close();
            },
        }, { highWaterMark: 0 });
        return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'application/x-ndjson' } }));
    };
}"""

_LONG_LOG = """
    const lineOf = (text) => JSON.stringify({ time: '2026-01-01T00:00:00Z', source: 'worker-0', text, open: false }) + '\\n';
    const cursorOf = (number) => JSON.stringify({ cursor: `c${number}` }) + '\\n';
    function* pieces() {
        let text = '';
        for (let number = 1; number <= LINES; number++) {
            text += lineOf(`line ${number}`);
            if (number % 200 === 0) text += cursorOf(number);
            if (text.length < PIECE) continue;
            yield text;
            text = '';
        }
        const [begin, end] = lineOf('|').split('|');
        yield text + begin;
        for (let left = LONG; left > 0; left -= PIECE) yield 'x'.repeat(Math.min(left, PIECE));
        yield end + lineOf('the end') + cursorOf('last');
    }
    yield { pieces: pieces(), breaks: false };
"""
_PIECE = 64 * 1024


def first_answers(path: str, *answers: tuple[int, str]) -> str:
    """The first requests whose path has this in it are answered by these statuses and texts; status 0: nobody answers."""
    return _FIRST_ANSWERS.replace("PATH", json.dumps(path)).replace("ANSWERS", json.dumps(answers))


def logs_answered(*answers: tuple[Sequence[Mapping[str, Any]], bool]) -> str:
    """Each request for logs is answered by the next of these: records, and whether the connection breaks after them.

    `askedForLogs` has the queries.
    """
    texts = ["".join(f"{json.dumps(record)}\n" for record in records) for records, _ in answers]
    yields = [
        f"yield {{ pieces: [{json.dumps(text)}].values(), breaks: {json.dumps(breaks)} }};"
        for text, (_, breaks) in zip(texts, answers, strict=True)
    ]
    return _LOGS.replace("ANSWERS", "\n".join(yields))


def log_of(lines: int, long: int) -> str:
    """The request for logs is answered by so many lines, one of so many characters that no cluster cuts, and `the end`.

    `logsAskedAt` is when it was made, in ms since the document was asked for.
    """
    made = _LONG_LOG.replace("LINES", str(lines)).replace("LONG", str(long)).replace("PIECE", str(_PIECE))
    return _LOGS.replace("ANSWERS", made)


@contextmanager
def probing(browser: Browser, *scripts: str) -> Iterator[None]:
    """Run these scripts in each document that this window opens meanwhile."""
    added = [
        browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        for script in scripts
    ]
    try:
        yield
    finally:
        for script in added:
            browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
