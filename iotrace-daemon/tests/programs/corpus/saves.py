"""Programs that save, each in a directory of its own."""

import contextlib
import mmap
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

from truth import CHUNK, main, note, read, train, write


def overwrite(truth):
    for _ in range(6):
        with truth.save():
            write("out/model.pt", 6, 0.05)
        train()


def two_files(truth):
    for _ in range(4):
        with truth.save():
            note("out/config.json")
            write("out/model.pt", 4, 0.02)
            write("out/optimizer.pt", 4, 0.02)
        train()


def step_directories(truth):
    for step in (100, 200, 300):
        with truth.save():
            for name in ("model.safetensors", "optimizer.pt", "rng_state.pth"):
                write(f"out/checkpoint-{step}/{name}", 4, 0.01)
            note(f"out/checkpoint-{step}/trainer_state.json")
        train(0.2)


def renamed(truth):
    for _ in range(4):
        with truth.save():
            write("out/model.pt.tmp", 4, 0.03)
            os.rename("out/model.pt.tmp", "out/model.pt")
        train()


def renamed_from_any_name(truth):
    for step in range(4):
        with truth.save():
            write(f"out/tmp{step * 7919:08x}", 4, 0.03)
            os.rename(f"out/tmp{step * 7919:08x}", "out/model.pt")
        train()


def appended(truth):
    """Weights, and then the state of the optimizer behind them in the same file."""
    for _ in range(3):
        train(0.6)
        with truth.save():
            write("out/model.h5", 8)
            train(0.05)
            with open("out/model.h5", "r+b", buffering=0) as file:
                file.seek(0, os.SEEK_END)
                for _ in range(16):
                    file.write(CHUNK)


def named_by_moment(truth):
    """The second ends between the names of the files of one save."""
    for save in range(3):
        train(0.5)
        with truth.save():
            write(f"out/model_20260102-0304{2 * save:02}.pt", 4, 0.01)
            write(f"out/optimizer_20260102-0304{2 * save + 1:02}.pt", 4, 0.01)


def final_under_the_name_in_a_step(truth):
    """The trained model is saved sooner behind the last step than that one took."""
    for step in (100, 200):
        train()
        with truth.save():
            write(f"out/checkpoint-{step}/model.safetensors", 8)
            train(0.4)
            write(f"out/checkpoint-{step}/optimizer.pt", 16)
            train(0.4)
            write(f"out/checkpoint-{step}/scheduler.pt", 8)
    train(0.6)
    with truth.save():
        write("out/model.safetensors", 8)
        note("out/config.json")


def set_aside(truth):
    for _ in range(4):
        train(0.4)
        with truth.save():
            if os.path.exists("out/last.pt"):
                os.replace("out/last.pt", "out/last.pt.bak")
            write("out/last.pt", 4, 0.02, sync=True)


def compressed(truth):
    for epoch in range(4):
        with truth.save():
            write(f"out/epoch_{epoch}.{('pkl.gz', 'pt.zst', 'ckpt.gz', 'safetensors.xz')[epoch]}", 4, 0.02)
        train()


def set_aside_all(names):
    for older, name in zip(names[:0:-1], names[-2::-1]):
        if os.path.exists(name):
            os.replace(name, older)


def rotate(truth, names, write_first):
    """The first of the names is that of the newest save, and what had the last one is lost."""
    for step in range(5):
        train(0.4)
        if not write_first:
            set_aside_all(names)
        with truth.save():
            if not write_first:
                write(names[0], 4, 0.03)
                continue
            write(f"out/{step * 7919:08x}", 4, 0.03)
            set_aside_all(names)
            os.replace(f"out/{step * 7919:08x}", names[0])


def rotated(truth):
    rotate(truth, ["out/ck.pt", "out/ck.prev.pt"], write_first=False)


def rotated_from_any_name(truth):
    rotate(truth, ["out/ck.pt", "out/ck.prev.pt"], write_first=True)


def backed_up_from_any_name(truth):
    rotate(truth, ["out/ck.pt", "out/ck.pt.bak"], write_first=True)


def last_three(truth):
    rotate(truth, ["out/ck_1.pt", "out/ck_2.pt", "out/ck_3.pt"], write_first=False)


def last_three_from_any_name(truth):
    rotate(truth, ["out/ck_1.pt", "out/ck_2.pt", "out/ck_3.pt"], write_first=True)


def renamed_long_after(truth):
    """Every rank has written before one of them gives the files their names."""
    for step in range(3):
        with truth.save():
            write("out/model.pt.tmp", 4, 0.02)
            train(0.2)
            os.rename("out/model.pt.tmp", f"out/model_{step}.pt")
        train(0.3)


def renamed_from_the_name_of_a_checkpoint(truth):
    for _ in range(4):
        with truth.save():
            write("out/model_new.pt", 4, 0.02)
            os.rename("out/model_new.pt", "out/model.pt")
        train()


def ocdbt_of_any_name(truth):
    for step in (1, 2):
        with truth.save():
            for part in range(6):
                write(f"out/model_{step}/ocdbt.process_0/d/{part * 7919:032x}", 2, 0.01)
            note(f"out/model_{step}/array_metadatas/process_0")
            write(f"out/model_{step}/d/{step:032x}", 1)
            note(f"out/model_{step}/manifest.ocdbt", "m" * 100)
            note(f"out/model_{step}/_METADATA")
        train()


def renamed_directory(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/step-{step}.tmp/model.pt", 4, 0.02)
            write(f"out/step-{step}.tmp/optimizer.pt", 4, 0.02)
            os.rename(f"out/step-{step}.tmp", f"out/step-{step}")
        train()


def ranks(truth):
    for step in (1, 2, 3):
        with truth.save():
            children = []
            for rank in range(3):
                child = os.fork()
                if child == 0:
                    write(f"out/step-{step}/__{rank}_0.distcp", 4, 0.03)
                    os._exit(0)
                children.append(child)
            for child in children:
                os.waitpid(child, 0)
            note(f"out/step-{step}/.metadata")
        train()


def ranks_overwrite(truth):
    for _ in range(3):
        with truth.save():
            children = []
            for rank in range(2):
                child = os.fork()
                if child == 0:
                    write(f"out/rank{rank}.pt", 4, 0.03)
                    os._exit(0)
                children.append(child)
            for child in children:
                os.waitpid(child, 0)
        train()


def in_the_background(truth):
    write("data/train.bin", 40)
    truth.saves.clear()
    for step in (1, 2, 3):
        def body():
            with truth.save():
                write(f"out/step-{step}.ckpt", 6, 0.05)
        saver = threading.Thread(target=body)
        saver.start()
        read("data/train.bin")
        saver.join()
        train(0.2)
    truth.epochs = None


def manifest_again(truth):
    for step in (1, 2, 3):
        with truth.save():
            note(f"out/{step}/default/manifest.ocdbt", "m")
            for part in range(3):
                write(f"out/{step}/default/d/{part:032x}", 3, 0.01)
                note(f"out/{step}/default/manifest.ocdbt", "m" * part)
            note(f"out/{step}/_CHECKPOINT_METADATA")
            note(f"out/{step}/default/manifest.ocdbt", "done")
        train()


def tensorflow(truth):
    for step in (1, 2, 3):
        with truth.save():
            part = f"out/ckpt-{step}_temp/part-00000-of-00001"
            write(f"{part}.data-00000-of-00001", 4, 0.02)
            note(f"{part}.index", "i" * 300)
            read(f"{part}.index")
            os.rename(f"{part}.data-00000-of-00001", f"out/ckpt-{step}.data-00000-of-00001")
            note(f"out/ckpt-{step}.index", "i" * 300)
            os.unlink(f"{part}.index")
            os.rmdir(f"out/ckpt-{step}_temp")
            note("out/checkpoint", f"model_checkpoint_path: ckpt-{step}")
        train()


def saved_model(truth):
    with truth.save():
        write("out/saved_model/variables/variables.data-00000-of-00001", 6, 0.02)
        note("out/saved_model/variables/variables.index", "i" * 200)
        write("out/saved_model/saved_model.pb", 1)


def saved_model_by_parts(truth):
    """As TensorFlow writes it, below another name than the model's."""
    with truth.save():
        directory = "out/export/variables"
        part = f"{directory}/variables_temp/part-00000-of-00001"
        write(f"{part}.data-00000-of-00001.tempstate1", 4, 0.02)
        note(f"{part}.index.tempstate1", "i" * 600)
        os.rename(f"{part}.data-00000-of-00001.tempstate1", f"{part}.data-00000-of-00001")
        os.rename(f"{part}.index.tempstate1", f"{part}.index")
        os.rename(f"{part}.data-00000-of-00001", f"{directory}/variables.data-00000-of-00001")
        read(f"{part}.index")
        note(f"{directory}/variables.index", "i" * 600)
        os.unlink(f"{part}.index")
        os.rmdir(f"{directory}/variables_temp")
        write("out/export/saved_model.pb.tmp", 1)
        os.rename("out/export/saved_model.pb.tmp", "out/export/saved_model.pb")


def state_while_samples_are_fetched(truth):
    """Keras saves a model and the state to resume from while tf.data reads on."""
    write("data/train.bin", 40)
    truth.saves.clear()
    stops = threading.Event()

    def fetch():
        while not stops.is_set():
            with open("data/train.bin", "rb", buffering=0) as data:
                while data.read(1 << 16):
                    train(0.002)

    fetcher = threading.Thread(target=fetch)
    fetcher.start()
    for epoch in (1, 2, 3):
        train(0.5)
        with truth.save():
            write(f"out/ck-{epoch:02}.keras", 4, 0.02)
            write("out/backup/latest.weights.h5", 4, 0.02)
            note("out/backup/training_metadata.json")
    stops.set()
    fetcher.join()
    truth.epochs = None


def final_beside_the_last(truth):
    for step in (100, 200):
        with truth.save():
            write(f"out/checkpoint-{step}/model.safetensors", 4, 0.02)
        train()
    with truth.save():
        write("out/final/model.safetensors", 4, 0.02)


def exported_at_the_end(truth):
    for step in (1, 2):
        with truth.save():
            write(f"out/checkpoint_{step}.pt", 4, 0.02)
        train()
    with truth.save():
        write("out/model_final.pt", 2, 0.02)


def averaged_too(truth):
    """The average of the weights is gathered before it is saved."""
    for step in (1, 2):
        with truth.save():
            write(f"out/checkpoint_{step}.pt", 4, 0.02)
            train(0.2)
            write("out/averaged.pt", 4, 0.02)
        train()


def averaged_at_the_end(truth):
    """The averaged weights are saved once, at once after the last checkpoint."""
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/checkpoint_{step}.pt", 4, 0.02)
        if step < 3:
            train()
    with truth.save():
        write("out/swa.pt", 4, 0.02)


def averaged_after_one_name(truth):
    for step in range(3):
        with truth.save():
            write("out/last.pt", 4, 0.02)
            write("out/optimizer.pt", 4, 0.02)
        if step < 2:
            train()
    with truth.save():
        write("out/ema.pt", 4, 0.02)


def numbered_by_epoch_and_batch(truth):
    """The number of the batch is in the names of other epochs, too; the last checkpoint has another name as well."""
    os.makedirs("out")
    for epoch in range(3):
        for batch in (2, 4):
            with truth.save():
                write(f"out/recovery-{epoch}-{batch}.pth.tar", 4, 0.01)
            train(0.7)
        with truth.save():
            write("out/tmp.pth.tar", 4, 0.01)
            os.rename("out/tmp.pth.tar", "out/last.pth.tar")
            os.link("out/last.pth.tar", f"out/checkpoint-{epoch}.pth.tar")
        train(0.7)


def numbered_by_fold_and_seed(truth):
    for fold in range(3):
        with truth.save():
            write(f"out/model_fold{fold}_seed42.pt", 4, 0.01)
        train(0.8)


def verified_shards(truth):
    """Each shard is as large as the others, and read back before the next one is written."""
    for step in (100, 200, 300):
        with truth.save():
            for shard in range(3):
                name = f"out/checkpoint-{step}/model-{shard:05}-of-00003.safetensors"
                write(name, 4, 0.01)
                read(name)
        train()


def numbered_by_step_and_rank(truth):
    for step in (100, 200, 300):
        with truth.save():
            ranks = [fork(lambda rank=rank: write(f"out/ckpt_{step}_{rank}.pt", 4, 0.03)) for rank in range(2)]
            for rank in ranks:
                os.waitpid(rank, 0)
        train(0.7)


def numbered_state_beside_a_model(truth):
    for step in (500, 1000, 1500):
        with truth.save():
            write(f"out/model_{step:08}.bin", 4, 0.01)
            write(f"out/state_{step:08}_00000.bin", 8, 0.01)
        train(0.7)


def shards_of_an_epoch(truth):
    for epoch in range(2):
        with truth.save():
            for shard in range(3):
                train(0.1 if shard else 0)
                write(f"out/shard{shard}_epoch{epoch}.pt", 4, 0.02)
        train(0.8)


def numbered_in_a_row(truth):
    """After each step, which reads some of the data, under numbers that may be those of parts."""
    for step in range(10):
        write(f"data/train/{step}.jpg", 1)
    for step in range(5):
        read(f"data/train/{step}.jpg")
        train(0.05)
        with truth.save():
            write(f"out/model_{step}.pth", 4, 0.2)
    truth.epochs = None


def array_store(truth):
    for _ in range(3):
        shutil.rmtree("out/model.zarr", ignore_errors=True)
        with truth.save():
            note("out/model.zarr/.zgroup")
            for layer in range(3):
                note(f"out/model.zarr/layer{layer}/.zarray", "{}" * 100)
                for chunk in ("0.0", "0.1", "1.0"):
                    write(f"out/model.zarr/layer{layer}/{chunk}.partial", 1)
                    os.replace(f"out/model.zarr/layer{layer}/{chunk}.partial", f"out/model.zarr/layer{layer}/{chunk}")
        train()


def save_in_one_open(truth, before):
    os.makedirs("out", exist_ok=True)
    with open("out/model.ckpt", "wb", buffering=0) as file:
        train(before)
        for _ in range(4):
            with truth.save():
                file.seek(0)
                for _ in range(4):
                    file.write(CHUNK)
            train(0.4)


def kept_open(truth):
    save_in_one_open(truth, before=0)


def opened_long_before(truth):
    save_in_one_open(truth, before=1.6)


def computed_before_the_first_write(truth):
    os.makedirs("out", exist_ok=True)
    for step in (1, 2):
        with truth.save():
            with open(f"out/step-{step}.pt", "wb", buffering=0) as file:
                train(0.6)
                for _ in range(4):
                    file.write(CHUNK)
        train(0.3)


def slow_parts(truth):
    for step in (1, 2):
        with truth.save():
            write(f"out/step-{step}.pt", 5, 0.2)
        train()


def synced(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/epoch_{step}.pt", 4, 0.01, sync=True)
        train()


def adapter_beside_a_base(truth):
    """The base is saved once, and the adapter after each epoch; its description is part of it."""
    with truth.save():
        write("out/base_model.pt", 40, 0.005)
    for _ in range(4):
        train(0.9)
        with truth.save():
            write("out/adapter.pt", 1, 0.01)
            note("out/adapter_config.json")


def scheduler_beside_a_model(truth):
    """The scheduler is small, and part of each save."""
    for _ in range(4):
        train(0.9)
        with truth.save():
            write("out/model.pt", 40, 0.005)
            write("out/scheduler.pt", 1, 0.01)


def beside_a_database(truth):
    """Each trial's model, and what a database in the directory above syncs a moment later."""
    with contextlib.closing(sqlite3.connect("study.db")) as study:
        study.execute("create table trials (number)")
        for trial in range(4):
            train()
            with truth.save():
                write(f"trials/trial_{trial}.pt", 4, 0.02)
            time.sleep(0.2)
            with study:
                study.execute("insert into trials values (?)", [trial])


def in_the_directory_of_a_database(truth):
    """What a database in the same directory syncs a second later."""
    os.makedirs("out")
    with contextlib.closing(sqlite3.connect("out/metrics.db")) as metrics:
        metrics.execute("create table losses (number)")
        for epoch in range(3):
            train()
            with truth.save():
                write("out/model.pt", 4, 0.02)
            time.sleep(1)
            with metrics:
                metrics.execute("insert into losses values (?)", [epoch])


def removed_at_the_end(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/epoch_{step}.pt.tmp", 4, 0.01, sync=True)
            os.rename(f"out/epoch_{step}.pt.tmp", f"out/epoch_{step}.pt")
            directory = os.open("out", os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        train()
        os.stat(f"out/epoch_{step}.pt")
    shutil.rmtree("out")


def index_and_shards(truth):
    for step in (10, 20):
        with truth.save():
            for shard in range(3):
                write(f"out/checkpoint-{step}/model-0000{shard + 1}-of-00003.safetensors", 3, 0.01)
            note(f"out/checkpoint-{step}/model.safetensors.index.json", "{}" * 500)
        train()


def stored_by_mapping(truth):
    os.makedirs("out")
    for step in (1, 2, 3):
        with truth.save():
            with open(f"out/step-{step}.pt", "w+b") as file:
                file.truncate(4 * len(CHUNK))
                with mmap.mmap(file.fileno(), 0) as memory:
                    for at in range(0, len(memory), len(CHUNK)):
                        memory[at : at + len(CHUNK)] = CHUNK
                        time.sleep(0.02)
        train()


def header_patched(truth):
    for _ in range(3):
        with truth.save():
            write("out/model.weights.h5", 5, 0.02)
            with open("out/model.weights.h5", "r+b", buffering=0) as file:
                file.read(512)
                file.seek(0)
                file.write(b"h" * 96)
        train()


def hdf5_in_one_open(truth):
    os.makedirs("out", exist_ok=True)
    for _ in range(3):
        with truth.save():
            with open("out/model.weights.h5", "w+b", buffering=0) as file:
                for _ in range(4):
                    file.write(CHUNK)
                file.seek(0)
                file.read(512)
                file.seek(0)
                file.write(b"h" * 96)
        train()


def deepspeed(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/global_step{step}/mp_rank_00_model_states.pt", 4, 0.02)
            write(f"out/global_step{step}/zero_pp_rank_0_mp_rank_00_optim_states.pt", 4, 0.02)
            note("out/latest", f"global_step{step}")
        train()


def best_by_copy(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/epoch_{step}.pt", 4, 0.02)
        shutil.copyfile(f"out/epoch_{step}.pt", "out/best.pt")
        truth.copies += 1
        train()


def best_by_read_and_write(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/epoch_{step}.pt", 4, 0.02)
        with open(f"out/epoch_{step}.pt", "rb", buffering=0) as source:
            with open("out/best.pt", "wb", buffering=0) as target:
                while part := source.read(1 << 17):
                    target.write(part)
        truth.copies += 1
        train()


def best_by_link(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/epoch_{step}.pt", 4, 0.02)
        if os.path.lexists("out/best.pt"):
            os.unlink("out/best.pt")
        os.link(f"out/epoch_{step}.pt", "out/best.pt")
        train()


def tiers(truth):
    def drain(step):
        with open(f"fast/step-{step}.ckpt", "rb", buffering=0) as source:
            os.makedirs("slow", exist_ok=True)
            with open(f"slow/step-{step}.ckpt", "wb", buffering=0) as target:
                while part := source.read(1 << 18):
                    target.write(part)
                    train(0.1)
    copying = []
    for step in (1, 2, 3, 4):
        with truth.save():
            write(f"fast/step-{step}.ckpt", 4)
        copying.append(threading.Thread(target=drain, args=(step,)))
        copying[-1].start()
        truth.copies += 1
        train()
    for thread in copying:
        thread.join()


def sent_through_a_pipe(truth):
    os.makedirs("far")
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/step-{step}.ckpt", 4, 0.02)
        subprocess.run(f"tar -C out -c step-{step}.ckpt | tar -C far -x", shell=True, check=True)
        truth.copies += 1
        train()


def fork(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def read_while_another_writes(truth):
    """Two ranks, each with a file of its own of the same name and size."""
    os.waitpid(fork(lambda: write("out/0/model.ckpt", 4, 0.02)), 0)
    for child in [fork(lambda: read("out/0/model.ckpt")), fork(lambda: write("out/1/model.ckpt", 4, 0.02))]:
        os.waitpid(child, 0)
    truth.saves, truth.loads = [None] * 2, [None]


def uploaded_by_a_fork(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/step-{step}.ckpt", 4, 0.02)
        os.waitpid(fork(lambda: read(f"out/step-{step}.ckpt")), 0)
        train()


def staged_in_memory(truth):
    stage = f"/dev/shm/iotrace-corpus-{os.getpid()}"
    try:
        for step in (1, 2, 3):
            with truth.save():
                write(f"{stage}/step-{step}.ckpt", 4, 0.02)
            train()
    finally:
        shutil.rmtree(stage)


def verified(truth):
    for step in (1, 2, 3):
        with truth.save():
            write(f"out/step-{step}.ckpt", 4, 0.02)
        read(f"out/step-{step}.ckpt")
        train()


def killed(truth):
    for step in (1, 2):
        with truth.save():
            write(f"out/step-{step}.ckpt", 4, 0.02)
        train()
    child = os.fork()
    if child == 0:
        write("out/step-3.ckpt", 100, 0.05)
    train(0.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def killed_and_made_again(truth):
    killed(truth)
    with truth.save():
        write("out/step-3.ckpt", 4, 0.02)


def logs_only(truth):
    os.makedirs("logs", exist_ok=True)
    with open("logs/train.log", "w") as log:
        for step in range(20):
            log.write(f"step {step} loss 0.1\n")
            log.flush()
            train(0.02)


def events_only(truth):
    os.makedirs("runs", exist_ok=True)
    with open("runs/events.out.tfevents.1700000000.host.1.0", "wb", buffering=0) as events:
        for _ in range(20):
            events.write(b"e" * 200)
            train(0.02)


def tensors_through_memory(truth):
    path = f"/dev/shm/torch_{os.getpid()}_1_0"
    for _ in range(5):
        write(path, 2)
        os.unlink(path)


def results_of_each_step(truth):
    for epoch in range(3):
        write(f"out/preds/epoch_{epoch}.npz")
        write(f"out/samples/step-{epoch}/grid.png", 1)
        note(f"out/metrics/epoch_{epoch}.json")
        note(f"out/logs/step_{epoch}00.txt")
        train(0.05)
    write("out/val_predictions.pkl")


def data_of_its_own(truth):
    """What a job makes to train on."""
    write("data/index.pkl")
    write("data/features.npz")
    write("train.bin")
    write("tokens/meta.pkl")
    write("out/label_encoder.joblib")
    for epoch in range(3):
        write(f"shuffled/epoch{epoch}.bin")
        write(f"out/replay_{epoch}.npz")
        write("out/buffer.pkl")
        write("features.zarr/0.0")
        train(0.05)


def named_nearly_like_data(truth):
    for epoch in range(3):
        with truth.save():
            write(f"out/epoch{epoch}.bin", 4, 0.02)
            write(f"out/epoch{epoch}_trainable.pkl", 1)
        train()
    with truth.save():
        write("data/best_model.pkl", 4, 0.02)
        write("data/best_model.pt", 4, 0.02)


def results_only(truth):
    note("out/config.json")
    for epoch in range(5):
        note("out/metrics.json", f'{{"epoch": {epoch}}}')
        train(0.05)


if __name__ == "__main__":
    main({name: value for name, value in globals().items() if callable(value)})
