"""Programs that read training data."""

import mmap
import os
import random
import shutil
import subprocess
import sys
import tarfile
import threading

from truth import main, note, read, train, write

FILES = [f"data/train/sample_{index:03}.jpg" for index in range(40)]
TEXTS = [f"raw/part_{index:02}.txt" for index in range(16)]
SHARDS = [f"shards/tokens_{index:02}.bin" for index in range(16)]
POSES = [f"pretrain/poses_{index:02}.npy" for index in range(8)]
VIDEOS = [f"data/video_{index:02}.mp4" for index in range(12)]
MORE = [path.replace("/train/", "/more/") for path in FILES[:10]]
VALIDATION = [path.replace("/train/", "/val/") for path in FILES[:8]]


def prepare(paths, size=1 << 16):
    """Data that another program made before."""
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"d" * size)


def passes(truth, number, files, pause=0.1):
    order = list(files)
    for _ in range(number):
        random.shuffle(order)
        for path in order:
            read(path)
        truth.epochs += 1
        train(pause)


def shuffled(truth):
    passes(truth, 3, FILES)


def checked_before(truth):
    with open("sums", "w") as sums:
        subprocess.run(["cksum", *FILES], stdout=sums, check=True)
    passes(truth, 3, FILES)


def one_file(truth):
    passes(truth, 4, ["data/train.bin"])


def mapped_with_small_index(truth):
    read("data/meta.pkl")
    with open("data/train.bin", "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            for _ in range(3):
                sum(memory[at] for at in range(0, len(memory), 4096))
    truth.epochs = None


def best_and_last(truth):
    """Each pass ends with a save, now under the one name and now under the other."""
    for name in ("best", "last", "best", "last"):
        passes(truth, 1, FILES, 0.3)
        with truth.save():
            write(f"out/{name}_model.pth", 4, 0.02)


def saved_during_passes(truth):
    """A thread saves two files, with a pause between them, while the data are read again and again."""
    def body():
        with truth.save():
            write("out/model.pth", 6, 0.03)
            train(0.3)
            write("out/optimizer.pth", 6, 0.03)
    saver = threading.Thread(target=body)
    saver.start()
    while saver.is_alive():
        passes(truth, 1, FILES, 0.005)


def staged(truth):
    for path in FILES:
        local = path.replace("data/", "local/")
        os.makedirs(os.path.dirname(local), exist_ok=True)
        shutil.copyfile(path, local)
        truth.copies += 1
    passes(truth, 3, [path.replace("data/", "local/") for path in FILES])


def staged_by_its_maker(truth):
    images()
    staged(truth)


def staged_by_read_and_write(truth):
    os.makedirs("local")
    with open("data/train.bin", "rb", buffering=0) as source, open("local/train.bin", "wb", buffering=0) as target:
        while part := source.read(1 << 20):
            target.write(part)
    truth.copies += 1
    passes(truth, 3, ["local/train.bin"])


def read_all(paths):
    for path in paths:
        read(path)


def fork(work, *parts):
    """Does the work with each part, in a process of its own at the same time."""
    children = []
    for part in parts:
        child = os.fork()
        if child == 0:
            work(part)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def workers(truth):
    for _ in range(3):
        fork(read_all, FILES[::2], FILES[1::2])
        truth.epochs += 1
        train(0.1)


def with_validation(truth):
    for _ in range(3):
        for path in FILES:
            read(path)
        truth.epochs += 1
        for path in VALIDATION:
            read(path)
        train(0.1)


def with_saves(truth):
    for epoch in range(3):
        for path in FILES:
            read(path)
        truth.epochs += 1
        os.makedirs("out", exist_ok=True)
        with truth.save():
            with open(f"out/epoch_{epoch}.pt", "wb", buffering=0) as file:
                for _ in range(4):
                    file.write(b"w" * (1 << 20))
        train(0.1)


def encode(paths, made):
    """Makes data of half the size."""
    for path, target in zip(paths, made):
        with open(path, "rb") as source, open(target, "wb") as data:
            data.write(source.read()[::2])


def tokenized(truth):
    os.makedirs("data")
    with open("data/train.bin", "wb") as data:
        for path in TEXTS:
            with open(path, "rb") as text:
                data.write(text.read()[::2])
    passes(truth, 3, ["data/train.bin"])


def encode_once():
    """Under a name that may be a model's."""
    with open("corpus_ids.bin", "wb", buffering=0) as data:
        for path in TEXTS:
            with open(path, "rb") as text:
                data.write(text.read()[::2])
    train(0.2)


def encoded_under_any_name(truth):
    """Read batch by batch."""
    encode_once()
    for _ in range(3):
        with open("corpus_ids.bin", "rb", buffering=0) as data:
            while data.read(1 << 16):
                train(0.01)
        truth.epochs += 1
        train(0.05)


def mapped_under_any_name(truth):
    """For each batch anew."""
    encode_once()
    for _ in range(20):
        with open("corpus_ids.bin", "rb") as data:
            with mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as memory:
                sum(memory[random.randrange(len(memory))] for _ in range(50))
        train(0.01)
    truth.epochs = None


def arrays_of_any_name(truth):
    """Read as a whole in each epoch."""
    write("arrays/0.npz", 4)
    passes(truth, 18, ["arrays/0.npz"], pause=0.03)


def tokenized_in_workers(truth):
    os.makedirs("shards")
    fork(lambda worker: encode(TEXTS[worker::2], SHARDS[worker::2]), 0, 1)
    passes(truth, 3, SHARDS)


def tokenized_by_another(truth):
    code = "data = open('train.bin', 'wb')\nfor path in {}: data.write(open(path, 'rb').read()[::2])"
    subprocess.run([sys.executable, "-c", code.format(TEXTS)], check=True)
    passes(truth, 3, ["train.bin"])


def unknown_shuffled_into_new_files(truth):
    with open("data/train.bin", "rb") as source:
        data = source.read()
    os.makedirs("shuffled")
    for epoch in range(3):
        with open(f"shuffled/epoch{epoch}.bin", "wb") as shuffled:
            shuffled.write(data[:99:-1])
        read(f"shuffled/epoch{epoch}.bin")
        train(0.1)
    truth.epochs = None


def unpacked_for_one_epoch(truth):
    with tarfile.open("data.tar") as archive:
        archive.extractall("unpacked")
    passes(truth, 1, [f"unpacked/{path}" for path in FILES])


def records(truth, size):
    with open("data/train.bin", "rb", buffering=0) as data:
        for _ in range(3):
            order = list(range(0, 8 << 20, 2048))
            random.shuffle(order)
            for begin in order:
                os.pread(data.fileno(), size, begin)
            truth.epochs += 1
            train(0.1)


def headers(path):
    """Where the members of an archive begin, and their sizes."""
    with tarfile.open(path) as archive:
        return [(path, member.offset_data, member.size) for member in archive if member.isfile()]


def indexed_then_in_random_order(truth):
    """The headers of an archive are read before its members, and a little more than these."""
    members = headers("data.tar")
    with open("data.tar", "rb", buffering=0) as data:
        for _ in range(3):
            random.shuffle(members)
            for _, begin, size in members:
                os.pread(data.fileno(), size + 1024, begin)
            truth.epochs += 1
            train(0.4)


def indexed_then_in_order(truth):
    headers("data.tar")
    train(0.4)
    passes(truth, 3, ["data.tar"], pause=0.4)


def unknown_indexed_with_small_members(truth):
    """Reading the headers reads about all."""
    records(truth, 2048)
    with open("data/train.bin", "rb", buffering=0) as data:
        for begin in range(0, 5 << 20, 4096):
            os.pread(data.fileno(), 3000, begin)
    truth.epochs = None


def records_in_random_order(truth):
    records(truth, 2048)


def unknown_read_more_than_asked(truth):
    """As HDF5 does with records that are far smaller than what it reads at once."""
    records(truth, 5800)
    truth.epochs = None


def row_groups(truth):
    """A reader of tables: the end of each twice, then its groups of rows in random order. Many passes fit into an interval."""
    for _ in range(3):
        for path in FILES[:4]:
            with open(path, "rb", buffering=0) as table:
                for begin in [(1 << 16) - 8, 15 << 12, *random.sample(range(0, 1 << 16, 1 << 13), 8)]:
                    os.pread(table.fileno(), 1 << 13, begin)
        truth.epochs += 1
        train(0.02)


def closed_later(truth):
    """A reader of tables, which reads the end first, some of it twice, and closes a file when the next one is open."""
    before = None
    for _ in range(3):
        for path in FILES[:2]:
            table = open(path, "rb", buffering=0)
            table.seek(3 << 14)
            table.read(1 << 14)
            table.seek(0)
            table.read()
            train(0.6)
            if before:
                before.close()
            before = table
        truth.epochs += 1


def unpacked(truth):
    with tarfile.open("data.tar") as archive:
        archive.extractall("unpacked")
    passes(truth, 3, [f"unpacked/{path}" for path in FILES])


def unknown_cached_by_the_first_pass(truth):
    """Trains on what it reads while it makes the data of the next passes."""
    os.makedirs("cache")
    files = [*zip(TEXTS, SHARDS)]
    random.shuffle(files)
    for text, shard in files:
        encode([text], [shard.replace("shards/", "cache/")])
    train(0.1)
    passes(truth, 2, [shard.replace("shards/", "cache/") for shard in SHARDS])
    truth.epochs = None


def made_of_each(ending):
    """The names of what is made of each sample."""
    os.makedirs("cache")
    return [f"cache/{os.path.basename(path)[:-4]}{ending}" for path in FILES]


def cache_in_order(truth, made):
    """Trains while it makes the cache, and then twice from it, always in order."""
    for path, cached in zip(FILES, made):
        encode([path], [cached])
        train(0.005)
    for cached in made * 2:
        read(cached)
        train(0.005)
    truth.epochs = None


def unknown_cached_in_order(truth):
    cache_in_order(truth, made_of_each(".npy"))


def unknown_cached_as_tensors(truth):
    cache_in_order(truth, made_of_each(".pt"))


def arrays_made_of_each(truth):
    """By the program that trains on them then."""
    arrays = made_of_each(".npy")
    for path, array in zip(FILES, arrays):
        encode([path], [array])
    passes(truth, 3, arrays)


def arrays_made_by_another(truth):
    """By a program that does not train."""
    arrays = made_of_each(".npy")
    code = "for path, array in {}: open(array, 'wb').write(open(path, 'rb').read()[::2])"
    subprocess.run([sys.executable, "-c", code.format([*zip(FILES, arrays)])], check=True)
    passes(truth, 3, arrays)


def unknown_cached_by_tensorflow(truth):
    """As tf.data does: under the names of a checkpoint, while there is a lock."""
    os.makedirs("cache")
    note("cache/samples_0.lockfile", "Created at: 0")
    temporary = "cache/samples_0.data-00000-of-00001.tempstate1"
    with open(temporary, "wb") as data:
        for text in TEXTS:
            with open(text, "rb") as part:
                data.write(part.read()[::2])
            train(0.01)
    os.rename(temporary, "cache/samples.data-00000-of-00001")
    note("cache/samples.index", "i" * 4096)
    os.remove("cache/samples_0.lockfile")
    train(0.1)
    for _ in range(2):
        read("cache/samples.index")
        passes(truth, 1, ["cache/samples.data-00000-of-00001"])
    truth.epochs = None


def unknown_trained_before_the_data_were_made(truth):
    os.makedirs("shards")
    encode(TEXTS, SHARDS)
    with truth.save():
        write("out/epoch_0.pt", 8, 0.02)
    passes(truth, 2, SHARDS)
    truth.epochs = None


def unknown_parts(truth):
    """Some columns of a table, or the next rows."""
    for _ in range(3):
        with open("data/train.bin", "rb", buffering=0) as table:
            table.read(4 << 20)
        train(0.6)
    truth.epochs = None


def halves(truth):
    """In turns, by two readers of different parts."""
    for _ in range(3):
        for begin, size in ((0, 5 << 20), (5 << 20, 3 << 20)):
            with open("data/train.bin", "rb", buffering=0) as table:
                table.seek(begin)
                table.read(size)
            train(0.6)
        truth.epochs += 1


def read_clips(truth, look):
    """A part of each video in each epoch, anywhere in it."""
    for _ in range(5):
        for path in random.sample(VIDEOS, len(VIDEOS)):
            if look:
                with open(path, "rb", buffering=0) as video:
                    video.read(4096)
            with open(path, "rb", buffering=0) as video:
                video.read(4096)
                video.seek(random.randrange(700 << 10))
                video.read(100 << 10)
            train(0.1)
        truth.epochs += 1


def clips(truth):
    read_clips(truth, look=False)


def clips_after_a_look(truth):
    read_clips(truth, look=True)


def next_rows_in_turns(truth):
    """A part of each file, then the next part of each."""
    for part in range(6):
        for path in VIDEOS:
            with open(path, "rb", buffering=0) as rows:
                rows.seek(part * (1 << 20) // 6)
                rows.read((1 << 20) // 6 + 1)
            train(0.02)
    truth.epochs = 1


def unknown_two_trainings(truth):
    """One after the other, each with data of its own."""
    passes(truth, 2, FILES[:20])
    passes(truth, 3, FILES[20:])
    truth.epochs = None


def stages(truth):
    """A training that goes on with other data."""
    for data in (FILES, MORE):
        for _ in range(3):
            passes(truth, 1, data)
            with truth.save():
                write(f"out/epoch_{truth.epochs}.pt", 4, 0.02)
            train(0.1)


def unknown_tested_twice(truth):
    """On other data, when all is saved."""
    for _ in range(3):
        passes(truth, 1, FILES)
        with truth.save():
            write("out/model.pt", 4, 0.02)
        train(0.1)
    passes(truth, 2, MORE)
    truth.epochs = None


def unknown_kept_in_memory(truth):
    for path in FILES:
        read(path)
    for epoch in range(4):
        train(0.5)
        with truth.save():
            write(f"out/epoch_{epoch}.pt", 4, 0.02)
    truth.epochs = None


def unknown_kept_in_memory_and_saved_once(truth):
    for path in FILES:
        read(path)
    train(2.5)
    with truth.save():
        write("out/net.pth", 4, 0.02)
    truth.epochs = None


def averaged_between_steps(truth):
    """The averaged model has no step in its name, and an epoch lies between it and each step."""
    for epoch in range(4):
        passes(truth, 1, FILES, 0.2)
        with truth.save():
            write("out/swa.pt" if epoch % 2 else f"out/model_{epoch}.pt", 4, 0.02)


def saved_by_layers(truth):
    """A file for each layer, each of which is gathered first."""
    for _ in range(3):
        passes(truth, 1, FILES, 0.2)
        with truth.save():
            for layer in range(8):
                write(f"out/weights/layer_{layer}.pt", 4)
                train(0.03 if layer < 7 else 0)


def in_a_place_of_weights(truth):
    passes(truth, 3, POSES)


def one_epoch(truth):
    """Saves on the way and at the end, where a final model is made of the last checkpoint."""
    for index, path in enumerate(FILES):
        read(path)
        train(0.05)
        if index % 20 == 19:
            with truth.save():
                write(f"out/step_{index}.pt", 4, 0.02)
    truth.epochs += 1
    train(0.7)
    with truth.save():
        write("out/model.pt", 4, 0.02)


def stopped_early(truth):
    passes(truth, 3, FILES)
    passes(truth, 1, FILES[:25])


def tried_before(truth):
    for path in FILES[:1]:
        read(path)
    train(0.1)
    passes(truth, 3, FILES)


def validated_by_a_part(truth):
    """A part of the data is for validation, which is tried before the first epoch."""
    fork(read_all, FILES[30:])
    for _ in range(3):
        fork(read_all, random.sample(FILES[:30], 30))
        truth.epochs += 1
        train(0.1)
        fork(read_all, FILES[30:])


def tested_after_the_last_save(truth):
    """A part of the data is for a test, once the model is saved."""
    for _ in range(3):
        passes(truth, 1, FILES[:30])
        with truth.save():
            write("out/model.pt", 4, 0.02)
    read_all(FILES[30:])


def tried_several_times(truth):
    """As libraries do that look what a sample is."""
    for path in FILES[:1]:
        read(path)
        read(path)
    train(0.1)
    passes(truth, 3, FILES)


def streamed_tables(truth):
    """The schema is read first; workers read the end of a table, and then all of it but that."""
    size = 420 << 10

    def read_end(table):
        os.pread(table.fileno(), 1 << 16, size - (1 << 16))

    def read_tables(paths):
        for path in paths:
            with open(path, "rb", buffering=0) as table:
                read_end(table)
                os.pread(table.fileno(), 400 << 10, 4)
                os.pread(table.fileno(), 1 << 12, 400 << 10)

    with open(FILES[0], "rb", buffering=0) as table:
        read_end(table)
    for _ in range(2):
        fork(read_tables, FILES[:4:2], FILES[1:4:2])
        truth.epochs += 1
        train(0.6)


def broken_off(truth):
    """The second epoch breaks off and begins again: a pass over some files more."""
    for part in (FILES, FILES[:20], FILES, FILES):
        for path in part:
            read(path)
        truth.epochs += 1
        train(0.1)


def images():
    prepare(FILES)


def texts():
    prepare(TEXTS, 1 << 18)


def archive(size=1 << 16):
    prepare(FILES, size)
    with tarfile.open("data.tar", "w") as archive:
        archive.add("data")
    shutil.rmtree("data")


def one_large():
    prepare(["data/train.bin"], 8 << 20)


BEFORE = {
    **{name: [images] for name in ("shuffled", "checked_before", "staged", "workers", "with_validation", "with_saves")},
    **{name: [images] for name in ("tried_before", "broken_off", "stopped_early", "unknown_two_trainings")},
    **{name: [images] for name in ("unknown_kept_in_memory", "unknown_kept_in_memory_and_saved_once", "averaged_between_steps", "saved_by_layers", "one_epoch", "tried_several_times", "validated_by_a_part", "tested_after_the_last_save")},
    **{name: [texts] for name in ("tokenized", "tokenized_in_workers", "tokenized_by_another")},
    **{name: [texts] for name in ("unknown_cached_by_the_first_pass", "unknown_cached_by_tensorflow", "unknown_trained_before_the_data_were_made")},
    **{name: [archive] for name in ("unpacked", "unpacked_for_one_epoch")},
    **{name: [lambda: archive(36 << 10)] for name in ("indexed_then_in_random_order", "indexed_then_in_order")},
    **{name: [texts] for name in ("encoded_under_any_name", "mapped_under_any_name")},
    **{name: [one_large] for name in ("unknown_shuffled_into_new_files", "unknown_read_more_than_asked", "records_in_random_order")},
    **{name: [images] for name in ("best_and_last", "saved_during_passes", "row_groups")},
    **{name: [images] for name in ("unknown_cached_in_order", "arrays_made_by_another", "arrays_made_of_each", "unknown_cached_as_tensors")},
    **{name: [images, lambda: prepare(MORE)] for name in ("stages", "unknown_tested_twice")},
    "unknown_indexed_with_small_members": [one_large],
    "streamed_tables": [lambda: prepare(FILES[:4], 420 << 10)],
    **{name: [lambda: prepare(VIDEOS, 1 << 20)] for name in ("clips", "clips_after_a_look", "next_rows_in_turns")},
    "in_a_place_of_weights": [lambda: prepare(POSES)],
    "closed_later": [lambda: prepare(FILES[:2])],
    **{name: [one_large] for name in ("one_file", "unknown_parts", "halves", "staged_by_read_and_write", "mapped_with_small_index")},
}
BEFORE["with_validation"].append(lambda: prepare(VALIDATION))
BEFORE["mapped_with_small_index"].append(lambda: prepare(["data/meta.pkl"], 1000))

if __name__ == "__main__":
    main({name: value for name, value in globals().items() if callable(value)}, BEFORE)
