"""Where `tune` says that its report is."""

import os

from warmstart.cli.tune import _report_line


def test_a_page_of_an_earlier_call_is_not_named(tmp_path):
    report, page = tmp_path / "report.md", tmp_path / "report.html"
    report.write_text("# now")
    assert _report_line(str(report)) == f"Report: {report}"
    page.write_text("<p>")
    assert _report_line(str(report)) == f"Report: {report}, and with pictures {page}"
    os.utime(page, ns=(0, report.stat().st_mtime_ns - 1))
    assert _report_line(str(report)) == f"Report: {report}"
