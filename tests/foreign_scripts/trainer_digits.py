import argparse
import tempfile

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed


class Digits(torch.utils.data.Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"pixel_values": torch.tensor(self.images[i], dtype=torch.float32), "labels": int(self.labels[i])}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pixel_values, labels=None):
        logits = self.net(pixel_values)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def compute_metrics(eval_pred):
    predictions, labels = eval_pred
    return {"accuracy": (np.argmax(predictions, axis=1) == labels).mean()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--num_train_epochs", type=int, default=6)
    args = parser.parse_args()
    set_seed(0)
    x, y = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as output_dir:
        training_args = TrainingArguments(
            output_dir=output_dir,
            learning_rate=args.learning_rate,
            num_train_epochs=args.num_train_epochs,
            per_device_train_batch_size=64,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            use_cpu=True,
        )
        trainer = Trainer(
            model=Classifier(),
            args=training_args,
            train_dataset=Digits(x[:1300] / 16, y[:1300]),
            eval_dataset=Digits(x[1300:] / 16, y[1300:]),
            compute_metrics=compute_metrics,
        )
        trainer.train()
