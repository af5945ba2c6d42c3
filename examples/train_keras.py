#!/usr/bin/env python3
"""Train a small network on images of CIFAR-10's shape with Keras: tf.data reads the files anew in each epoch,
ModelCheckpoint saves the model after it, and the last checkpoint is loaded again at the end.

    python3 train_keras.py --data DIR --make && python3 train_keras.py --data DIR --output DIR

At the end it prints one line of JSON with what it did, which a tracer must agree with.
"""

import contextlib
import os
import time

import cifar10


def data_set(files, options):
    """Batches of images and labels, the records of all files interleaved and shuffled."""
    import tensorflow as tf

    def parse(record):
        values = tf.io.decode_raw(record, tf.uint8)
        image = tf.transpose(tf.reshape(values[1:], (3, 32, 32)), (1, 2, 0))
        return tf.cast(image, tf.float32) / 255, tf.cast(values[0], tf.int32)

    names = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
    records = names.interleave(
        lambda name: tf.data.FixedLengthRecordDataset(name, cifar10.RECORD),
        cycle_length=len(files),
        num_parallel_calls=options.workers,
    )
    samples = records.shuffle(2_000, seed=0).map(parse, num_parallel_calls=options.workers)
    whole = tf.data.experimental.assert_cardinality(len(files) * cifar10.IMAGES)
    return samples.apply(whole).batch(options.batch).prefetch(2)


def model():
    """A network that is small enough for two processors to train it in seconds."""
    import keras

    network = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            keras.layers.AveragePooling2D(4),
            keras.layers.Flatten(),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(cifar10.CLASSES, activation="softmax"),
        ]
    )
    network.compile(keras.optimizers.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy")
    return network


def train(options):
    """All epochs; gives what was done."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    files = cifar10.batch_files(options.data)
    checkpoints = options.output / "checkpoints"
    callbacks = [
        keras.callbacks.ModelCheckpoint(checkpoints / "epoch-{epoch:03d}.keras"),
        keras.callbacks.CSVLogger(options.output / "logs" / "train.log"),
    ]
    started = time.monotonic()
    batches = data_set(files, options)
    # The progress bar goes where that of a batch job goes: into a file.
    with open(options.output / "logs" / "progress.log", "w", encoding="utf-8") as progress:
        with contextlib.redirect_stdout(progress):
            model().fit(batches, epochs=options.epochs, callbacks=callbacks, shuffle=False, verbose=1)
    saved = sorted(checkpoints.glob("epoch-*.keras"))
    keras.saving.load_model(saved[-1])
    return {
        "framework": f"Keras {keras.__version__} on TensorFlow {tf.__version__}",
        "seconds": round(time.monotonic() - started, 3),
        "epochs": options.epochs,
        "training_files": len(files),
        "training_bytes": options.epochs * sum(file.stat().st_size for file in files),
        "checkpoints": len(saved),
        # Not their bytes: zipfile writes headers twice, so what is written is more than what is there.
        "checkpoint_files": len(saved),
        "restores": 1,
    }


if __name__ == "__main__":
    cifar10.tell(**train(cifar10.arguments(__doc__.splitlines()[0])))
