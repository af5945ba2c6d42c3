"""Programs that make the files of one framework or tool each."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
import zipfile

from truth import CHUNK, main, note, read, train, write

IMAGES = [f"coco/train2017/{index:012}.jpg" for index in range(30)]
VALIDATION = [f"coco/val2017/{index:012}.jpg" for index in range(12)]


def prepare(paths, size=1 << 16):
    """Data that another program made before."""
    for path in paths:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"d" * size)


def read_all(paths, pause=0.01):
    for path in paths:
        read(path)
        time.sleep(pause)


def shuffled(paths):
    return random.sample(paths, len(paths))


def mmengine(truth):
    """The checkpoint of an epoch, validation, and the best checkpoint, which has the epoch's number too."""
    for epoch in range(1, 5):
        read_all(shuffled(IMAGES))
        truth.epochs += 1
        with truth.save():
            write(f"work/epoch_{epoch}.pth", 4, 0.02)
            note("work/last_checkpoint", f"epoch_{epoch}.pth")
        read_all(VALIDATION, 0.03)
        if epoch % 2:
            with truth.save():
                write(f"work/best_bbox_mAP_epoch_{epoch}.pth", 4, 0.02)


def best_then_final(truth, best, final, work):
    with truth.save():
        write(best, 6, 0.02)
    work()
    with truth.save():
        write(final, 6, 0.02)


def nnunet(truth):
    """The best checkpoint of the last epochs, and the final one a little later."""
    for _ in range(2):
        read_all(shuffled(IMAGES))
        truth.epochs += 1
    best_then_final(truth, "fold/checkpoint_best.pth", "fold/checkpoint_final.pth", lambda: train(1.2))


def stable_baselines(truth):
    """No training data: the pause between the saves is all there is."""
    best_then_final(truth, "logs/best_model.zip", "logs/final_model.zip", lambda: train(2.0))


def espnet(truth):
    """Loads nothing between: the states that are averaged are in memory."""
    best_then_final(truth, "exp/valid.acc.best.pth", "exp/valid.acc.ave.pth", lambda: train(1.0))


def best_and_last_at_once(truth):
    for _ in range(3):
        train(0.4)
        with truth.save():
            write("weights/last_model.pth", 4, 0.02)
            write("weights/best_model.pth", 4, 0.02)


def parts_of_the_best_with_pauses(truth):
    """The optimizer's state is gathered from all ranks before it is written."""
    with truth.save():
        write("out/best_model.pt", 4, 0.02)
        train(1.0)
        write("out/best_optimizer.pt", 4, 0.02)
        note("out/latest", "best_model.pt")


def validated_during_a_save(truth):
    """A thread reads ahead, while the two files of a step are written with a pause between."""
    for epoch in range(3):
        read_all(shuffled(IMAGES))
        truth.epochs += 1
        ahead = threading.Thread(target=read_all, args=(VALIDATION, 0.03))
        with truth.save():
            ahead.start()
            write(f"out/model_{epoch}.pth", 3, 0.03)
            train(0.1)
            write(f"out/optimizer_{epoch}.pth", 3, 0.03)
        ahead.join()
        train(0.2)


def detectron2(truth):
    """A pointer to the newest of the numbered checkpoints, and to the last one, which has no number."""
    for iteration in (24, 49, 74):
        train(0.4)
        with truth.save():
            write(f"output/model_{iteration:07}.pth", 4, 0.02)
            note("output/last_checkpoint", f"model_{iteration:07}.pth")
    train(0.5)
    with truth.save():
        write("output/model_final.pth", 4, 0.02)
        note("output/last_checkpoint", "model_final.pth")


def stylegan(truth):
    """The directory of a run has a number, and so has each snapshot in it."""
    for kimg in (0, 200, 400):
        train(0.3)
        with truth.save():
            write(f"runs/0/network-snapshot-{kimg:06}.pkl", 4, 0.02)


def in_numbered_directories(truth):
    for step in (100, 200, 300):
        with truth.save():
            for name in ("model.pt", "optimizer.pt"):
                write(f"out/{step}/{name}", 4, 0.02)
        train(0.3)


def sentence_transformers(truth):
    with truth.save():
        note("out/final/modules.json")
        write("out/final/model.safetensors", 4, 0.02)
        note("out/final/1_Pooling/config.json")
        write("out/final/2_Dense/model.safetensors", 2, 0.02)


def spacy(truth):
    for directory in ("model-best", "model-best", "model-last"):
        train(0.4)
        with truth.save():
            note(f"out/{directory}/tokenizer")
            for name in ("vocab/vectors", "tok2vec/model", "ner/model"):
                write(f"out/{directory}/{name}", 2, 0.02)
            note(f"out/{directory}/meta.json")
    with truth.load():
        subprocess.run([sys.executable, "-c", "open('out/model-last/ner/model', 'rb').read()"], check=True)
    truth.loads = [None]  # its interpreter's start is no part of it


PIPELINE = [f"sd/{name}/model.safetensors" for name in ("text_encoder", "vae", "unet")]


def diffusers(truth):
    with truth.load():
        read("sd/model_index.json")
        for path in PIPELINE:
            train(0.1)
            read(path)
    train(0.3)
    with truth.save():
        for path in PIPELINE:
            write(f"out/{path}", 4, 0.03)
        note("out/sd/model_index.json")


def torchtune(truth):
    for epoch in range(2):
        train(0.5)
        with truth.save():
            write(f"out/epoch_{epoch}/model-00001-of-00001.safetensors", 4, 0.02)
            write("out/recipe_state/recipe_state.pt", 8, 0.02)


def boosted_trees(truth):
    for name in ("xgb.ubj", "LightGBM_model.txt", "model.cbm"):
        train(0.3)
        with truth.save():
            write(f"out/{name.split('.')[1]}/{name}", 2, 0.02)
    for rounds in (9, 19):
        train(0.3)
        with truth.save():
            write(f"checkpoints/model_{rounds}.json", 2, 0.02)


def archived(truth):
    """An archive of a checkpoint is none."""
    for step in (1, 2):
        train(0.3)
        with truth.save():
            for name in ("model.pt", "optimizer.pt"):
                write(f"out/ck_{step}/{name}", 4, 0.02)
        train(0.2)
        shutil.make_archive(f"out/ck_{step}", "tar", f"out/ck_{step}")


def saved_as_tar(truth):
    """PyTorch's tutorials call a checkpoint `.tar`."""
    for step in (1, 2):
        train(0.3)
        with truth.save():
            write(f"out/checkpoint_{step}.tar", 4, 0.02)


def replay_shards(truth):
    """Actors write episodes, of which the learner has not read the newest when it ends."""
    for index in range(40):
        write(f"episodes/{index:05}.pkl", 1)
        if index >= 8:
            read(f"episodes/{index - 8:05}.pkl")
        train(0.02)
        if index % 20 == 19:
            with truth.save():
                write("out/agent.pt", 4, 0.02)
    truth.epochs = 1


def averaged(truth):
    """An average is as large as each of the checkpoints."""
    with truth.load():
        for step in range(4):
            read(f"in/checkpoint{step}.pt")
    with truth.save():
        write("out/averaged.pt", 4)


EVALUATE = """
import os, time
for step in range(3):
    path = f"out/ckpt_{step}.pt"
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            time.sleep(0.02)
"""


def evaluated_as_saved(truth):
    """One process loads each checkpoint as soon as it is there."""
    os.makedirs("out")
    evaluation = subprocess.Popen([sys.executable, "-c", EVALUATE])
    for step in range(3):
        train(0.5)
        with truth.save():
            write("out/new.tmp", 8, 0.01)
            os.rename("out/new.tmp", f"out/ckpt_{step}.pt")
    evaluation.wait()
    truth.loads = [None] * 3


def zipped():
    with zipfile.ZipFile("archive.zip", "w") as archive:
        for index in range(32):
            archive.writestr(f"{index:04}.jpg", CHUNK[: 1 << 16])


def unknown_members_of_an_archive(truth):
    """More is read than the members: in how many passes is not known."""
    with zipfile.ZipFile("archive.zip") as archive:
        for _ in range(3):
            for name in shuffled(archive.namelist()):
                archive.read(name)
            train(0.2)
    truth.epochs = None


def archive_read_again(truth):
    for _ in range(3):
        read("archive.zip")
        truth.epochs += 1
        train(0.2)


def archive_read_once(truth):
    read("archive.zip")
    train(0.2)


def graphs(truth):
    """PyTorch Geometric prepares the data once, and keeps them in memory."""
    write("Cora/processed/data.pt", 8)
    for _ in range(3):
        train(0.3)
        with truth.save():
            write("out/gcn.pt", 2, 0.02)


def graphs_of_any_place(truth):
    """As graphs, without a directory that says so."""
    for path in ("out/dataset.pt", "out/graph.pkl"):
        write(path, 8)
        read(path)
    for _ in range(3):
        train(0.5)
        with truth.save():
            write("out/gcn.pt", 2, 0.02)
    truth.epochs = None


def make_and_train_on(truth, parts, model, order=list):
    """Makes the data once, and trains for three epochs that read them in an order."""
    for part in parts:
        write(part, 4)
    for _ in range(3):
        for part in order(parts):
            read(part)
        truth.epochs += 1
        train(0.3)
        with truth.save():
            write(model, 2, 0.02)


def latents(truth):
    """A model of images encodes them once; few files have them all."""
    make_and_train_on(truth, [f"out/latents-{part}.pt" for part in range(4)], "out/unet.pt")


def few_shards(truth):
    shards = [f"out/shard_{part:05}.bin" for part in range(4)]
    make_and_train_on(truth, shards, "out/gpt.pt", lambda parts: random.sample(parts, 4))


def weights_in_shards(truth):
    """A model in parts, which is tried once it is saved, and its description."""
    for step in range(2):
        train(0.3)
        with truth.save():
            for part in range(3):
                write(f"weights/shard_{part:05}.bin", 4, 0.01)
    with truth.save():
        for part in range(3):
            write(f"export/pytorch_model-{part + 1:05}-of-00003.bin", 4, 0.01)


BEFORE = {
    **{name: [lambda: prepare(IMAGES + VALIDATION)] for name in ("mmengine", "nnunet", "validated_during_a_save")},
    **{name: [zipped] for name in ("unknown_members_of_an_archive", "archive_read_again", "archive_read_once")},
    "diffusers": [lambda: prepare(PIPELINE, 1 << 20), lambda: note("sd/model_index.json")],
    "averaged": [lambda: prepare([f"in/checkpoint{step}.pt" for step in range(4)], 1 << 20)],
}

if __name__ == "__main__":
    main({name: value for name, value in globals().items() if callable(value)}, BEFORE)
