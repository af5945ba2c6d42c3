# What the Python package marks, with stand-ins of the frameworks that it has callbacks for.
import sys
import types

sys.path.insert(0, sys.argv[1])
import iotrace

told = []


class Library:
    iotrace_range_push = staticmethod(lambda name: told.append(name.decode()))
    iotrace_range_pop = staticmethod(lambda: told.append("pop"))
    iotrace_mark = staticmethod(lambda name: told.append("mark " + name.decode()))


assert iotrace._library is None, "there is no library here"
with iotrace.range("nobody sees this"):
    iotrace.mark("nor this")
iotrace._library = Library
with iotrace.range("a"):
    iotrace.mark("b")
assert told == ["a", "mark b", "pop"], told


def stand_in(name, base):
    """A module with a base class of callbacks."""
    module = types.ModuleType(name)
    setattr(module, base, type(base, (), {}))
    sys.modules[name] = module
    return module


for name in ("lightning", "lightning.pytorch", "keras"):
    sys.modules[name] = types.ModuleType(name)
stand_in("lightning.pytorch.callbacks", "Callback")
stand_in("keras.callbacks", "Callback")
stand_in("transformers", "TrainerCallback")
import iotrace.keras
import iotrace.lightning
import iotrace.transformers


def check(marks, calls, expected):
    told.clear()
    for call, count in calls:
        getattr(marks, call)(*[None] * count)
    assert told == expected, (told, expected)


# Lightning validates within the epoch, and saves in its end; an exception leaves a step open.
check(
    iotrace.lightning.Marks(),
    [
        ("on_train_epoch_start", 2),
        ("on_train_batch_start", 4),
        ("on_train_batch_end", 5),
        ("on_validation_start", 2),
        ("on_validation_end", 2),
        ("on_save_checkpoint", 3),
        ("on_train_epoch_end", 2),
        ("on_train_epoch_start", 2),
        ("on_train_batch_start", 4),
        ("on_exception", 3),
        ("on_fit_end", 2),
    ],
    ["epoch", "step", "pop", "validation", "pop", "mark save", "pop", "epoch", "step", "pop", "pop"],
)
# The Trainer ends no step whose gradients it skips, and calls with names too.
check(
    iotrace.transformers.Marks(),
    [
        ("on_epoch_begin", 3),
        ("on_step_begin", 3),
        ("on_step_begin", 3),
        ("on_step_end", 3),
        ("on_save", 3),
        ("on_epoch_end", 3),
        ("on_train_end", 3),
    ],
    ["epoch", "step", "pop", "step", "pop", "mark save", "pop"],
)
iotrace.transformers.Marks().on_save(None, None, None, model=None)
check(
    iotrace.keras.Marks(),
    [
        ("on_epoch_begin", 1),
        ("on_train_batch_begin", 1),
        ("on_train_batch_end", 1),
        ("on_test_begin", 0),
        ("on_test_end", 1),
        ("on_epoch_end", 2),
        ("on_train_end", 0),
    ],
    ["epoch", "step", "pop", "validation", "pop", "pop"],
)
print("ok")
