"""A callback for Keras: `model.fit(..., callbacks=[iotrace.keras.Marks()])`.

Keras calls no callback for a save: the report has saves among its checkpoints. Nor does it if a training fails (see README.md).
"""

try:
    from keras.callbacks import Callback
except ImportError:
    from tensorflow.keras.callbacks import Callback

from ._loop import Loop


class Marks(Callback):
    """Ranges of epochs, steps and validations."""

    def __init__(self):
        super().__init__()
        self._loop = Loop()

    def on_epoch_begin(self, epoch, logs=None):
        self._loop.begin("epoch")

    def on_epoch_end(self, epoch, logs=None):
        self._loop.end("epoch")

    def on_train_batch_begin(self, batch, logs=None):
        self._loop.begin("step")

    def on_train_batch_end(self, batch, logs=None):
        self._loop.end("step")

    def on_test_begin(self, logs=None):
        self._loop.begin("validation")

    def on_test_end(self, logs=None):
        self._loop.end("validation")

    def on_train_end(self, logs=None):
        self._loop.end_all()
