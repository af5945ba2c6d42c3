"""A callback for Hugging Face's Trainer: `Trainer(callbacks=[iotrace.transformers.Marks()])`.

The Trainer calls no callback if a training fails (see README.md).
"""

from transformers import TrainerCallback

from ._loop import Loop


class Marks(TrainerCallback):
    """Ranges of epochs and steps; a moment after each save."""

    def __init__(self):
        self._loop = Loop()

    def on_epoch_begin(self, args, state, control, **kwargs):
        self._loop.begin("epoch")

    def on_epoch_end(self, args, state, control, **kwargs):
        self._loop.end("epoch")

    def on_step_begin(self, args, state, control, **kwargs):
        self._loop.begin("step")

    def on_step_end(self, args, state, control, **kwargs):
        self._loop.end("step")

    def on_save(self, args, state, control, **kwargs):
        self._loop.saved()

    def on_train_end(self, args, state, control, **kwargs):
        self._loop.end_all()
