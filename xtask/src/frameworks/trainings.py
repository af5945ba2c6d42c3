"""Small trainings by a framework, with the callback of iotrace's package for it.

    python trainings.py FRAMEWORK DIRECTORY

Prints a line of JSON at the end: the ranges that iotrace must have, by what the models and the files say, not the callbacks.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

# Read when the frameworks are imported.
os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import torch

import iotrace

SAMPLES = 8
SAMPLES_IN_STEP = 2
EPOCHS = 2
# In the middle of the second epoch.
LAST_STEP = 6


class Count:
    """What a training did: the models call this."""

    def __init__(self, ranges, depth, failure=None):
        self.ranges = ranges
        self.depth = depth
        self.failure = failure
        self.steps = 0

    def step(self):
        """A step begins, and maybe fails."""
        if self.steps % (SAMPLES // SAMPLES_IN_STEP) == 0:
            self.ranges.append(["epoch", self.depth])
        self.ranges.append(["step", self.depth + 1])
        self.steps += 1
        if self.failure and self.steps == LAST_STEP:
            raise self.failure

    def validation(self):
        self.ranges.append(["validation", self.depth + 1])


def lightning(count, directory, stop):
    import iotrace.lightning
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

    class Model(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, index):
            count.step()
            return self.layer(batch).square().mean()

        # Lightning also tries a few batches of the validation data before it trains.
        def on_validation_start(self):
            if not self.trainer.sanity_checking:
                count.validation()

        def validation_step(self, batch, index):
            self.log("loss", self.layer(batch).square().mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    callbacks = [iotrace.lightning.Marks(), ModelCheckpoint(directory, "{epoch}-{step}", save_top_k=-1)]
    if stop == "early":
        callbacks.append(EarlyStopping("loss", min_delta=1e9, patience=EPOCHS - 1))
    data = torch.utils.data.DataLoader(torch.ones(SAMPLES, 4), SAMPLES_IN_STEP)
    Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
        max_epochs=100 if stop else EPOCHS,
        max_steps=LAST_STEP if stop == "inside" else -1,
    ).fit(Model(), data, data)


def transformers(count, directory, stop):
    import iotrace.transformers
    from transformers import EarlyStoppingCallback, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    PARTS = 2  # of a step, whose gradients are added up

    class CountingTrainer(Trainer):
        parts = 0

        def training_step(self, *args, **kwargs):
            if self.parts % PARTS == 0:
                count.step()
            self.parts += 1
            return super().training_step(*args, **kwargs)

    callbacks = [iotrace.transformers.Marks()]
    if stop == "early":
        callbacks.append(EarlyStoppingCallback(EPOCHS - 1, 1e9))
    words = torch.arange(4)
    data = [{"input_ids": words, "labels": words}] * SAMPLES
    CountingTrainer(
        model=GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=4, n_embd=8, n_layer=1, n_head=1)),
        args=TrainingArguments(
            directory,
            disable_tqdm=True,
            eval_strategy="epoch",
            gradient_accumulation_steps=PARTS,
            load_best_model_at_end=True,
            max_steps=LAST_STEP if stop == "inside" else -1,
            num_train_epochs=100 if stop else EPOCHS,
            per_device_train_batch_size=SAMPLES_IN_STEP // PARTS,
            report_to="none",
            save_strategy="epoch",
            use_cpu=True,
        ),
        train_dataset=data,
        eval_dataset=data,
        callbacks=callbacks,
    ).train()


def keras(count, directory, stop):
    import iotrace.keras
    import keras

    class Model(keras.Sequential):
        def train_step(self, data):
            count.step()
            if stop == "inside" and count.steps == LAST_STEP:
                self.stop_training = True
            return super().train_step(data)

        def evaluate(self, *args, **kwargs):
            count.validation()
            return super().evaluate(*args, **kwargs)

    callbacks = [iotrace.keras.Marks(), keras.callbacks.ModelCheckpoint(directory / "{epoch}.weights.h5", save_weights_only=True)]
    if stop == "early":
        callbacks.append(keras.callbacks.EarlyStopping("val_loss", min_delta=1e9, patience=EPOCHS - 1))
    model = Model([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = torch.ones(SAMPLES, 4), torch.ones(SAMPLES, 1)
    epochs = 100 if stop else EPOCHS
    model.fit(x, y, SAMPLES_IN_STEP, epochs, validation_data=(x, y), callbacks=callbacks, verbose=0)


# By framework: what trains, and the files of a save that it calls callbacks for.
FRAMEWORKS = {
    "lightning": (lightning, "*.ckpt"),
    "transformers": (transformers, "checkpoint-*"),
    "keras": (keras, None),
}


class Failure(Exception):
    """Comes from a step."""


def main(framework, directory):
    train, pattern = FRAMEWORKS[framework]
    ranges = []
    saves = []

    def case(name, stop=None, failure=None, around=True):
        """Trains once, within a range of this program or not."""
        if around:
            ranges.append([name, 0])
        count = Count(ranges, int(around), failure)
        place = Path(directory, name)
        place.mkdir()
        with iotrace.range(name) if around else contextlib.nullcontext():
            # Lightning exits when it is interrupted.
            with contextlib.suppress(Failure, KeyboardInterrupt, SystemExit):
                train(count, place, stop)
        assert count.steps == (LAST_STEP if failure or stop == "inside" else EPOCHS * SAMPLES // SAMPLES_IN_STEP)
        saves.append(len(list(place.glob(pattern))) if pattern else 0)
        iotrace.mark(name)

    case("complete")
    case("stopped early", stop="early")
    case("stopped inside an epoch", stop="inside")
    case("failed", failure=Failure())
    case("interrupted", failure=KeyboardInterrupt())
    case("failed, and nothing around", failure=Failure(), around=False)
    case("complete, and nothing around", around=False)
    print(json.dumps({"ranges": ranges, "saves": saves}))


main(*sys.argv[1:])
