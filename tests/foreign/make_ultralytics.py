"""Write `ultralytics/` with Ultralytics: python make_ultralytics.py, in an environment with it."""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits
from ultralytics import YOLO

if __name__ == "__main__":
    target = Path(__file__).parent / "ultralytics"
    shutil.rmtree(target, ignore_errors=True)
    digits = load_digits()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(80):
            place = Path(folder) / "digits" / ("train" if number < 60 else "val") / str(digits.target[number] % 3)
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((digits.images[number] * 15).astype("uint8")).resize((32, 32)).convert("RGB").save(place / f"{number}.png")  # fmt: skip
        for number, (optimizer, rate) in enumerate((("SGD", 0.02), ("SGD", 0.002), ("auto", 0.02))):
            about = {"optimizer": optimizer, "lr0": rate, "project": f"{folder}/classify", "name": f"train{number}"}
            same = {"data": f"{folder}/digits", "epochs": 2, "imgsz": 32, "plots": False, "device": "cpu", "workers": 0, "amp": False}  # fmt: skip
            YOLO("yolov8n-cls.yaml").train(**about, **same)
        for path in sorted(Path(folder).glob("classify/*/*")):
            if path.name in ("args.yaml", "results.csv"):
                to = target / path.parent.name / path.name
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_text(path.read_text().replace(folder, "/data"))
