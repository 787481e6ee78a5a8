"""The page of a classifier."""

import re

import numpy as np
from PIL import Image

from warmstart.plots.study_page import write_page
from warmstart.studies.results.study_record import StudyRecord


def test_a_page_leads_with_the_classifier_and_shows_its_mistakes(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(2):
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
                tmp_path / "photos" / name / f"{number}.png"
            )
    wrong = {"image": "dog/1.png", "truth": "dog", "answer": "cat", "probability of the truth": 0.01}
    record = {
        "model": "clf.safetensors",
        "error": 0.04,
        "interval": [0.02, 0.07],
        "confusion": [{"truth": "cat", "cat": 50, "dog": 0}, {"truth": "dog", "cat": 4, "dog": 46}],
        "counts": {"cat": 300, "dog": 100},
        "worst": [wrong],
    }
    study = StudyRecord("photos-transfer", "s.db", "transfer", (), dataset=str(tmp_path / "photos"))
    write_page(tmp_path / "old.html", [study], title="t", classifier=record)
    old = (tmp_path / "old.html").read_text()
    assert old.index("About 96 of 100") < old.index("<h2>The worst answers") < old.index("<details><summary>The search")
    assert "gives 75 (dashed)" in old
    assert old.count("data:image/jpeg") == 1
    assert not re.search(r'(src|href)="(?!data:)', old)
    assert "Labels to check" not in old

    record |= {
        "mixed_up": [{"truth": "dog", "answer": "cat", "n": 4, "images": ["dog/1.png"]}],
        "thresholds": [{"at_least": 0.5, "n": 100, "right": 96}, {"at_least": 0.9, "n": 80, "right": 80}],
        "bins": [
            {"low": 0.5, "high": 0.9, "n": 20, "right": 16, "expected": 15.0},
            {"low": 0.9, "high": 1.0, "n": 80, "right": 80, "expected": 77.0},
        ],
        "doubted_labels": [{"image": "dog/1.png", "label": "dog", "suggested": "cat", "probability": 0.99}],
        "doubtful_copies": [{"why": "Equal", "images": [{"image": "cat/0.png", "label": "cat", "part": ""}]}],
        "labels_file": "photos-labels.csv",
        "growth": {
            "points": [{"n": 100, "error": 0.1}, {"n": 200, "error": 0.07}],
            "n": 400,
            "error": 0.04,
            "twice": 800,
            "forecast": 0.02,
        },
        "card": {"Classes": "cat, dog"},
    }
    write_page(tmp_path / "new.html", [study], title="t", classifier=record)
    new = (tmp_path / "new.html").read_text()
    assert "predict clf.safetensors NEW/ --sort-into SORTED/ --unsure 0.9" in new
    assert "--labels photos-labels.csv" in new
    assert "With twice as many (800) about 98 of 100 will be right instead of 96." in new
    assert len(new.encode()) < 30_000
