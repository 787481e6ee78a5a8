"""The campaign writes after each test and goes on where it was ended."""

import json

import campaign
import pytest


def test_it_goes_on_where_it_was_ended(tmp_path, monkeypatch):
    ran = []

    def run(name):
        if name == "c" and len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(name)
        return {"test": name, "seconds": 1.0, "outcome": "failed" if name == "b" else "passed", "message": ""}

    out = tmp_path / "campaign.json"
    monkeypatch.setattr(campaign, "collected", lambda only: ["a", "b", "c"])
    monkeypatch.setattr(campaign, "run", run)
    monkeypatch.setattr("sys.argv", ["campaign.py", "--out", str(out)])
    with pytest.raises(KeyboardInterrupt):
        campaign.main()
    assert [each["test"] for each in json.loads(out.read_text())["tests"]] == ["a", "b"]
    assert campaign.main() == 1
    assert ran == ["a", "b", "b", "c"]
    assert {each["test"]: each["outcome"] for each in json.loads(out.read_text())["tests"]} == {
        "a": "passed",
        "b": "failed",
        "c": "passed",
    }
    assert list(tmp_path.iterdir()) == [out]
