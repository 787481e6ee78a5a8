from argparse import ArgumentParser

import lightning as L
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


class LitDigits(L.LightningModule):
    def __init__(self, lr, hidden):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", F.cross_entropy(logits, y), prog_bar=True)
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=1e-2)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--max_epochs", type=int, default=6)
    args = parser.parse_args()
    L.seed_everything(42)
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    train = DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=64, shuffle=True)
    val = DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=500)
    trainer = L.Trainer(max_epochs=args.max_epochs, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(LitDigits(args.learning_rate, args.hidden), train, val)
