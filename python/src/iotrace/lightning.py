"""A callback for PyTorch Lightning: `Trainer(callbacks=[iotrace.lightning.Marks()])`.

Lightning calls no callback for a save of weights alone (`save_weights_only`).
"""

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from ._loop import Loop


class Marks(Callback):
    """Ranges of epochs, steps and validations; a moment at each checkpoint."""

    def __init__(self):
        super().__init__()
        self._loop = Loop()

    def on_train_epoch_start(self, trainer, pl_module):
        self._loop.begin("epoch")

    def on_train_epoch_end(self, trainer, pl_module):
        self._loop.end("epoch")

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self._loop.begin("step")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self._loop.end("step")

    def on_validation_start(self, trainer, pl_module):
        # Before it trains, Lightning tries a few batches.
        if not trainer.sanity_checking:
            self._loop.begin("validation")

    def on_validation_end(self, trainer, pl_module):
        self._loop.end("validation")

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        self._loop.saved()

    def on_fit_end(self, trainer, pl_module):
        self._loop.end_all()

    def on_exception(self, trainer, pl_module, exception):
        self._loop.end_all()
