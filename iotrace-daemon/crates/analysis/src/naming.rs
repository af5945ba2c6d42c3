//! Which save a checkpoint's file belongs to, by its path: the directory or the number of the step.

use iotrace_model::paths::name;

/// What the files of one save have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The step's own directory, or the one that the file is in.
    pub directory: Vec<u8>,
    /// The last number in the file's name, where the directory is not the step's.
    pub number: Option<u64>,
    /// Whether directory or number name a step.
    pub is_step: bool,
}

impl Key {
    /// Whether the directory is that of one step.
    pub fn has_own_directory(&self) -> bool {
        self.is_step && self.number.is_none()
    }

    /// Whether the files lie in a directory that is called by a number alone.
    pub fn has_bare_number(&self) -> bool {
        let name = self.directory.rsplit(|byte| *byte == b'/').next();
        let is_bare = |name: &[u8]| !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        self.has_own_directory() && name.is_some_and(is_bare)
    }

    /// The key of this file in that directory, if the directory's number is that of a run; `None` if it lies deeper.
    pub fn in_directory_of_run(&self, path: &[u8]) -> Option<Self> {
        let name = path.strip_prefix(&*self.directory)?.strip_prefix(b"/")?;
        let number = last_number(stem(name));
        (!name.contains(&b'/')).then(|| Self {
            directory: self.directory.clone(),
            number,
            is_step: number.is_some(),
        })
    }
}

/// Words that name a step where a number follows, with or without one of `-_=.` between.
const STEP_WORDS: [&str; 14] = [
    "checkpoint",
    "ckpt",
    "chkpt",
    "hpc_ckpt",
    "tmp-checkpoint",
    "global_step",
    "global_epoch",
    "step",
    "iter",
    "iteration",
    "epoch",
    "ep",
    "snapshot",
    "weights",
];
/// Entries of a directory whose name is the bare number of a step (Orbax, SavedModel).
const IN_A_NUMBER: [&str; 6] = [
    "default",
    "state",
    "params",
    "variables",
    "items",
    "metadata",
];

/// Directories inside a save (SavedModel, Orbax, sentence-transformers' modules have numbers and names of their own).
const INNER_DIRECTORIES: [&[u8]; 15] = [
    b"variables",
    b"assets",
    b"assets.extra",
    b"state",
    b"params",
    b"array_metadatas",
    // torchtune's state to resume from.
    b"recipe_state",
    // The models of a pipeline of diffusers.
    b"unet",
    b"vae",
    b"transformer",
    b"text_encoder",
    b"text_encoder_2",
    b"text_encoder_3",
    b"image_encoder",
    b"safety_checker",
];

/// Parts of the name of a file that was set aside; a number after the last dot is one, too.
const ASIDE_MARKS: [&[u8]; 5] = [b"prev", b"previous", b"old", b"bak", b"backup"];

/// Whether a file is one that describes a model and holds none of it, by its name.
pub fn is_description(path: &[u8]) -> bool {
    const ENDINGS: [&[u8]; 5] = [b".json", b".yaml", b".yml", b".txt", b".md"];
    const DESCRIPTIONS: [&[u8]; 7] = [
        b"_CHECKPOINT_METADATA",
        b"_METADATA",
        b"_sharding",
        b"commit_success.txt",
        b"checkpoint",
        b"latest",
        b"last_checkpoint",
    ];
    // The state of Ray Tune's search.
    const OF_SEARCHES: [&[u8]; 2] = [b"searcher-state-", b"search_gen_state-"];
    let name = name(path);
    // LightGBM's models are text, and XGBoost saves each as `model_9.json`.
    let is_model = name.ends_with(b"model.txt")
        || name.starts_with(b"model_") && name.ends_with(b".json") && last_number(name).is_some();
    ENDINGS.iter().any(|ending| name.ends_with(ending)) && !is_model
        || DESCRIPTIONS.contains(&name)
        || OF_SEARCHES.iter().any(|begin| name.starts_with(begin))
}

/// Whether a file is of the state from which Keras resumes an interrupted training (`BackupAndRestore`), by its name.
pub fn is_resumption(path: &[u8]) -> bool {
    [b"latest.weights.h5".as_slice(), b"training_metadata.json"].contains(&name(path))
}

/// Whether a file is a part of a training's state next to its model, by its name.
pub fn is_of_state(path: &[u8]) -> bool {
    const STATE_WORDS: [&[u8]; 9] = [
        b"optim", b"sched", b"scaler", b"ema", b"rng", b"random", b"state", b"trainer", b"args",
    ];
    let name = name(path).to_ascii_lowercase();
    let has = |part: &&[u8]| name.windows(part.len()).any(|found| found == *part);
    STATE_WORDS.iter().any(has)
}

/// Whether a file may hold all weights of a model, by its name: one that is no part of a state, or averaged weights.
pub fn may_be_model(path: &[u8]) -> bool {
    const AVERAGE_WORDS: [&[u8]; 2] = [b"ema", b"swa"];
    let name = name(path).to_ascii_lowercase();
    let mut words = name.split(|byte| !byte.is_ascii_alphabetic());
    !is_of_state(path) || words.any(|word| AVERAGE_WORDS.contains(&word))
}

/// Whether a file is not finished yet, by its name.
pub fn is_unfinished(name: &[u8]) -> bool {
    let marks: [&[u8]; 4] = [b"tmp", b"temp", b".part", b"incomplete"];
    let has = |mark: &&[u8]| name.windows(mark.len()).any(|part| part == *mark);
    name.starts_with(b".") || marks.iter().any(has)
}

/// A name by which a training chose one of its states, in words.
pub struct Choice {
    /// `best`, `final`.
    by: Vec<String>,
    /// Words that would name another part of the state, or another state altogether.
    of: Vec<String>,
}

impl Choice {
    /// `None` if the name has no word of choice.
    pub fn new(path: &[u8]) -> Option<Self> {
        const CHOICE_WORDS: [&str; 9] = [
            "best", "final", "last", "latest", "current", "end", "ave", "avg", "average",
        ];
        const COMMON_WORDS: [&str; 4] = ["model", "checkpoint", "ckpt", "weights"];
        let name = String::from_utf8_lossy(name(path)).to_ascii_lowercase();
        let words = name.split(['.', '_', '-']).map(str::to_owned);
        let words = words.filter(|word| !COMMON_WORDS.contains(&word.as_str()));
        let (by, of): (Vec<_>, Vec<_>) =
            words.partition(|word| CHOICE_WORDS.contains(&word.as_str()));
        (!by.is_empty()).then_some(Self { by, of })
    }

    /// Whether both are whole states of one training, by their names.
    pub fn is_of_the_same(&self, other: &Self) -> bool {
        self.by != other.by && self.of == other.of
    }
}

/// The last two numbers of a file's name: of a step and of a rank, if they are.
pub struct StepAndRank {
    /// The name without both.
    pub rest: Vec<u8>,
    pub step: u64,
    pub rank: u64,
}

impl StepAndRank {
    /// `None` if the name has less than two numbers.
    pub fn new(path: &[u8]) -> Option<Self> {
        let name = name(path);
        let (before, rank, end) = around_last_number(stem(name))?;
        let (begin, step, middle) = around_last_number(before)?;
        let ending = &name[stem(name).len()..];
        let rest = [begin, middle, end, ending].join(&b'/');
        Some(Self { rest, step, rank })
    }
}

/// A file's name without its last number, and that; `None` if it has none.
pub fn without_last_number(path: &[u8]) -> Option<(Vec<u8>, u64)> {
    let name = name(path);
    let (before, number, behind) = around_last_number(stem(name))?;
    let ending = &name[stem(name).len()..];
    Some(([before, behind, ending].join(&b'/'), number))
}

/// A file's name without the moment that it has, as a date with a time of day or in seconds since the Unix epoch; `None` if it
/// has none.
pub fn without_moment(path: &[u8]) -> Option<Vec<u8>> {
    let name = name(path);
    let is_digit = |at: usize| name.get(at).is_some_and(u8::is_ascii_digit);
    let digits: Vec<usize> = (0..name.len()).filter(|at| is_digit(*at)).collect();
    let value = |places: &[usize]| {
        let digits = places.iter().map(|at| u64::from(name[*at] - b'0'));
        digits.fold(0, |value, digit| value * 10 + digit)
    };
    let is_moment = |places: &[usize]| {
        let (first, last) = (places[0], places[places.len() - 1]);
        let is_within = first.checked_sub(1).is_some_and(is_digit) || is_digit(last + 1);
        let farthest = places.windows(2).map(|pair| pair[1] - pair[0]).max();
        !is_within
            && match places.len() {
                10 => {
                    farthest == Some(1) && (1_400_000_000..2_200_000_000).contains(&value(places))
                }
                // Digits of a date with a time of day may have one byte between them.
                _ => {
                    farthest <= Some(2)
                        && (2000..2100).contains(&value(&places[..4]))
                        && (1..=12).contains(&value(&places[4..6]))
                        && (1..=31).contains(&value(&places[6..8]))
                        && value(&places[8..10]) < 24
                        && value(&places[10..12]) < 60
                        && value(&places[12..]) < 60
                }
            }
    };
    let found = [14, 10].into_iter().find_map(|length| {
        let mut places = digits.windows(length);
        places.find(|places| is_moment(places))
    })?;
    let rest = (0..name.len()).filter(|at| !found.contains(at));
    Some(rest.map(|at| name[at]).collect())
}

/// Whether the names of two files differ in their numbers alone: `recovery-0-2.pt` and `recovery-1-2.pt`.
pub fn differ_in_numbers(one: &[u8], other: &[u8]) -> bool {
    let without = |path| {
        let mut rest = name(path).to_vec();
        rest.dedup_by(|byte, before| byte.is_ascii_digit() && before.is_ascii_digit());
        let digits = rest.iter_mut().filter(|byte| byte.is_ascii_digit());
        digits.for_each(|digit| *digit = b'0');
        rest
    };
    one != other && without(one) == without(other)
}

/// The path that a file had before it was set aside: `ck.pt` of `ck.prev.pt` and of `ck.pt.bak`; `None` if its name has no such
/// mark.
pub fn without_aside_mark(path: &[u8]) -> Option<Vec<u8>> {
    let begin = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    let name = &path[begin..];
    let is_separator = |byte: &u8| matches!(byte, b'.' | b'_' | b'-');
    let mut start = 0;
    for part in name.split(is_separator) {
        let end = start + part.len();
        let is_number =
            end == name.len() && !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        let is_counted = is_number && name[..start].ends_with(b".");
        if start > 0 && (ASIDE_MARKS.contains(&part) || is_counted) {
            return Some([&path[..begin + start - 1], &name[end..]].concat());
        }
        start = end + 1;
    }
    None
}

/// The save that the file at `path` belongs to.
pub fn key(path: &[u8]) -> Key {
    let components: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let (name, directories) = components
        .split_last()
        .map_or((path, [].as_slice()), |(n, d)| (*n, d));
    let is_step = |index: &usize| {
        let next = components.get(index + 1).copied().unwrap_or_default();
        let is_last = index + 2 == components.len();
        is_step_directory(directories[*index], next, is_last)
    };
    // TensorFlow: the merged result is in the directory above, under the same number.
    if let Some((container, above)) = directories.split_last()
        && let Some(step) = container.strip_suffix(b"_temp")
    {
        let number = last_number(step);
        return Key {
            directory: above.join(&b'/'),
            number,
            is_step: number.is_some(),
        };
    }
    let store = directories.iter().position(|name| is_store(name));
    // Directories within a store have numbers of its chunks.
    let mut outer = 0..store.map_or(directories.len(), |store| store + 1);
    if let Some(index) = outer.find(is_step) {
        let mut directory = directories[..index].join(&b'/');
        directory.push(b'/');
        directory.extend(finished_name(directories[index]));
        return Key {
            directory,
            number: None,
            is_step: true,
        };
    }
    if let Some(index) = store {
        let is_step = last_number(stem(directories[index])).is_some();
        return Key {
            directory: directories[..=index].join(&b'/'),
            number: None,
            is_step,
        };
    }
    let number = last_number(stem(name));
    let mut directories = directories;
    while let Some((last, above)) = directories.split_last()
        && (is_inner(last) || *last == b"d" && is_hash(name))
        && !above.is_empty()
    {
        directories = above;
    }
    Key {
        directory: directories.join(&b'/'),
        number,
        is_step: number.is_some(),
    }
}

/// Whether a directory is one model: a store of arrays, whose chunks have numbers of their own, or a pipeline of spaCy.
fn is_store(directory: &[u8]) -> bool {
    const STORE_ENDINGS: [&[u8]; 2] = [b".zarr", b".n5"];
    const PIPELINE_DIRECTORIES: [&[u8]; 2] = [b"model-best", b"model-last"];
    let mut endings = STORE_ENDINGS.iter();
    endings.any(|ending| directory.ends_with(ending)) || PIPELINE_DIRECTORIES.contains(&directory)
}

fn is_inner(directory: &[u8]) -> bool {
    INNER_DIRECTORIES.contains(&directory)
        || directory.starts_with(b"ocdbt.process_")
        || is_module(directory)
}

/// Whether a directory is that of a module of sentence-transformers: `2_Dense`.
fn is_module(directory: &[u8]) -> bool {
    let digits = directory
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let rest = directory[digits..].strip_prefix(b"_");
    digits > 0 && rest.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_uppercase))
}

/// Whether a name is a hash, as OCDBT names its data.
fn is_hash(name: &[u8]) -> bool {
    name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)
}

fn is_step_directory(name: &[u8], next: &[u8], is_last: bool) -> bool {
    let name = finished_name(name);
    let text = String::from_utf8_lossy(name).to_ascii_lowercase();
    if !name.is_empty() && name.iter().all(u8::is_ascii_digit) {
        // The number is that of a run where the files in it name steps of their own.
        let next_name = String::from_utf8_lossy(next);
        return is_last && !names_own_step(next) || IN_A_NUMBER.contains(&next_name.as_ref());
    }
    names_step(&text)
        || ["epoch=", "step=", "-epoch", "-step"].iter().any(|word| {
            text.split_once(word)
                .is_some_and(|(_, rest)| is_number(rest))
        })
}

/// Whether a file's name has a word that names a step, and its number.
pub fn names_own_step(path: &[u8]) -> bool {
    let own = String::from_utf8_lossy(stem(name(path))).to_ascii_lowercase();
    let mut words = own.match_indices(['-', '_']).map(|(at, _)| &own[at + 1..]);
    names_step(&own) || words.any(names_step)
}

/// Whether lower-case text begins with a word that names a step, and its number.
fn names_step(text: &str) -> bool {
    let mut words = STEP_WORDS.iter();
    words.any(|word| text.strip_prefix(word).is_some_and(is_number))
}

/// Whether text begins with a number of a step, with or without a separator before it.
fn is_number(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '_', '=', '.']).unwrap_or(text);
    rest.starts_with(|c: char| c.is_ascii_digit()) && !is_model_size(rest)
}

/// Whether lower-case text begins with a number of parameters: `7b`, `1.3b`, `350m`.
fn is_model_size(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let behind = unit.strip_prefix(['b', 'm']);
    behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// The name that a directory has when the save is over.
fn finished_name(name: &[u8]) -> &[u8] {
    let cut = |ending: &[u8]| name.windows(ending.len()).position(|part| part == ending);
    match cut(b".orbax-checkpoint-tmp").or_else(|| cut(b"_temp")) {
        Some(0) | None => name,
        Some(at) => &name[..at],
    }
}

/// A file's name without what marks it as a part, as of a rank, or as not finished.
fn stem(name: &[u8]) -> &[u8] {
    let mut stem = name;
    for mark in [
        // Of fairseq and metaseq.
        b"-model_part-".as_slice(),
        b"-shard",
        b".tmp",
        b".part",
        b".incomplete",
        b".tempstate",
        b".data-",
        b".index",
        b"-of-",
        b"-rank",
        b"_rank",
    ] {
        if let Some(at) = stem.windows(mark.len()).position(|part| part == mark)
            && at > 0
            && (mark != b"-shard" || stem.get(at + mark.len()).is_some_and(u8::is_ascii_digit))
        {
            stem = &stem[..at];
            if mark == b"-of-" {
                // The number of the part comes before it.
                let end = stem.iter().rposition(|byte| *byte == b'-');
                stem = &stem[..end.unwrap_or(0)];
            }
        }
    }
    let is_shard =
        stem.starts_with(b"__") || stem.starts_with(b"mp_rank") || stem.starts_with(b"zero_pp");
    let of_rank = [b"process_".as_slice(), b"rng_state", b"random_states"];
    // Accelerate numbers the second optimizer and those behind it.
    let of_accelerate = [b"optimizer_".as_slice(), b"scheduler_", b"sampler_"];
    let is_of_accelerate = name.ends_with(b".bin") || !name.contains(&b'.');
    let is_rank = stem.strip_prefix(b"rank").is_some_and(|rest| {
        let rest = rest.strip_prefix(b"_").unwrap_or(rest);
        rest.first().is_some_and(u8::is_ascii_digit)
    });
    let begins = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| stem.starts_with(prefix));
    let is_numbered = begins(&of_rank) || is_of_accelerate && begins(&of_accelerate);
    if is_shard || is_hash(stem) || is_rank || is_numbered {
        return &[];
    }
    // An extension may have a digit (.h5, .mp3).
    let stem = match stem.iter().rposition(|byte| *byte == b'.') {
        Some(dot) if stem.len() - dot <= 5 => &stem[..dot],
        _ => stem,
    };
    without_version(stem)
}

/// A name of PyTorch Lightning without the version it adds where a file has the name already: `last-v1`,
/// `epoch=3-step=128-v1`.
fn without_version(stem: &[u8]) -> &[u8] {
    let is_named = stem.starts_with(b"last-v") || stem.contains(&b'=');
    let number = stem.iter().rposition(|byte| !byte.is_ascii_digit());
    match number.and_then(|end| stem[..=end].strip_suffix(b"-v")) {
        Some(own) if is_named && !stem.ends_with(b"v") => own,
        _ => stem,
    }
}

fn last_number(name: &[u8]) -> Option<u64> {
    around_last_number(name).map(|(_, number, _)| number)
}

/// The last number in a name, and what is before and behind it.
fn around_last_number(name: &[u8]) -> Option<(&[u8], u64, &[u8])> {
    let end = name.iter().rposition(u8::is_ascii_digit)? + 1;
    let start = name[..end]
        .iter()
        .rposition(|byte| !byte.is_ascii_digit())
        .map_or(0, |at| at + 1);
    let number = std::str::from_utf8(&name[start..end]).ok()?.parse().ok()?;
    Some((&name[..start], number, &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_save_have_one_key() {
        for (paths, directory, number) in [
            (
                vec![
                    "/out/checkpoint-500/model-00001-of-00004.safetensors",
                    "/out/checkpoint-500/optimizer.pt",
                ],
                "/out/checkpoint-500",
                None,
            ),
            (
                vec![
                    "/out/global_step7/mp_rank_00_model_states.pt",
                    "/out/global_step7/zero_pp_rank_3_mp_rank_00_optim_states.pt",
                ],
                "/out/global_step7",
                None,
            ),
            (
                vec![
                    "/out/100.orbax-checkpoint-tmp/default/d/0f9e",
                    "/out/100/default/manifest.ocdbt",
                    "/out/100/_CHECKPOINT_METADATA",
                ],
                "/out/100",
                None,
            ),
            (
                vec![
                    "/out/ckpt-5.index",
                    "/out/ckpt-5.data-00000-of-00002",
                    "/out/ckpt-5.data-00001-of-00002",
                ],
                "/out",
                Some(5),
            ),
            (
                vec![
                    "/d/model-epoch-003.pt",
                    "/d/optim-epoch-003.pt",
                    "/d/model-epoch-003.pt.tmp",
                ],
                "/d",
                Some(3),
            ),
            (
                vec!["/d/epoch=3-step=1200.ckpt", "/d/epoch=3-step=1200.ckpt.tmp"],
                "/d",
                Some(1200),
            ),
            (
                vec!["/d/ep3-ba1200-rank0.pt", "/d/ep3-ba1200-rank15.pt"],
                "/d",
                Some(1200),
            ),
            (
                vec![
                    "/d/model.h5",
                    "/d/__0_0.distcp",
                    "/d/rng_state_3.pth",
                    "/d/rank7.pt",
                    "/d/model-00001-of-00002.bin",
                ],
                "/d",
                None,
            ),
            (
                vec![
                    "/d/checkpoint_1_500.pt",
                    "/d/checkpoint_1_500-shard0.pt",
                    "/d/checkpoint_2_500-model_part-1-shard3.pt",
                ],
                "/d",
                Some(500),
            ),
            (
                vec![
                    "/d/checkpoint_last-shard0.pt",
                    "/d/checkpoint_last-shard1.pt",
                ],
                "/d",
                None,
            ),
            (vec!["/d/model-sharded-5.pt"], "/d", Some(5)),
            (vec!["/home/7/run/model.pt"], "/home/7/run", None),
            (
                vec![
                    "/out/model_0/_METADATA",
                    "/out/model_0/manifest.ocdbt",
                    "/out/model_0/array_metadatas/process_0",
                    "/out/model_0/d/3a0eb621017502eb872a682f15d9ff44",
                    "/out/model_0/ocdbt.process_0/d/c4920bb7358ae404edc6b34a0489130d",
                ],
                "/out/model_0",
                None,
            ),
            (
                vec![
                    "/out/export/saved_model.pb",
                    "/out/export/variables/variables.index",
                    "/out/export/variables/variables.data-00000-of-00001",
                ],
                "/out/export",
                None,
            ),
            (
                vec![
                    "/out/model.zarr/.zgroup",
                    "/out/model.zarr/layer0/0.0",
                    "/out/model.zarr/layer1/c/1/0",
                ],
                "/out/model.zarr",
                None,
            ),
            (
                vec![
                    "/out/final/model.safetensors",
                    "/out/final/1_Pooling/config.json",
                    "/out/final/2_Dense/model.safetensors",
                ],
                "/out/final",
                None,
            ),
            (
                vec![
                    "/sd/model_index.json",
                    "/sd/unet/diffusion_pytorch_model.safetensors",
                    "/sd/text_encoder/model.safetensors",
                ],
                "/sd",
                None,
            ),
            (
                vec!["/out/model-best/ner/model", "/out/model-best/vocab/vectors"],
                "/out/model-best",
                None,
            ),
            (
                vec!["/runs/0/network-snapshot-000200.pkl"],
                "/runs/0",
                Some(200),
            ),
            (vec!["/d/model_5.pth", "/d/optimizer_5.pth"], "/d", Some(5)),
            (
                vec!["/d/model.bin", "/d/optimizer_1.bin", "/d/optimizer_0"],
                "/d",
                None,
            ),
            (vec!["/runs/3/epoch_12.pt"], "/runs/3", Some(12)),
            (
                vec!["/out/100/model_state.pt", "/out/100/rank_3.pt"],
                "/out/100",
                None,
            ),
            (
                vec![
                    "/out/ckpt-5_temp/part-00000-of-00001.index",
                    "/out/ckpt-5.index",
                    "/out/ckpt-5.data-00000-of-00001",
                ],
                "/out",
                Some(5),
            ),
        ] {
            for path in paths {
                let key = key(path.as_bytes());
                assert_eq!(
                    (String::from_utf8_lossy(&key.directory).as_ref(), key.number),
                    (directory, number),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_was_set_aside_had_a_name_without_the_mark() {
        for (path, before) in [
            ("/out/ck.prev.pt", Some("/out/ck.pt")),
            ("/out/ck.pt.bak", Some("/out/ck.pt")),
            ("/out/ck_old.pt", Some("/out/ck.pt")),
            ("/out/model.pt.2", Some("/out/model.pt")),
            ("/out/model_2.pt", None),
            ("/old/model.pt", None),
            ("/out/bolder.pt", None),
        ] {
            let found = without_aside_mark(path.as_bytes());
            assert_eq!(found.as_deref(), before.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn moments_are_dates_with_a_time_of_day_or_seconds_since_the_epoch() {
        for (path, rest) in [
            ("/out/model_20260102-030405.pt", Some("model_-.pt")),
            ("model_2026-01-02_03-04-05.pt", Some("model_--_--.pt")),
            ("v2-20260102T030405.pt", Some("v2-T.pt")),
            ("model_1767322000.pt", Some("model_.pt")),
            ("model_20260102-036405.pt", None),
            ("model_20261302.pt", None),
            ("epoch_12-step_3400.pt", None),
            ("model_1000000000.pt", None),
        ] {
            let found = without_moment(path.as_bytes());
            assert_eq!(found.as_deref(), rest.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn states_that_were_chosen_differ_in_the_choice_alone() {
        for (one, other, are_choices) in [
            ("checkpoint_best.pth", "checkpoint_final.pth", true),
            ("best_model.zip", "final_model.zip", true),
            ("valid.acc.best.pth", "valid.acc.ave.pth", true),
            ("best.pt", "last_model.pt", true),
            ("best_model.pt", "best_optimizer.pt", false),
            ("best_acc.pth", "best_loss.pth", false),
            ("model.safetensors", "optimizer.pt", false),
            ("model.pt", "model_ema.pt", false),
            ("generator_last.pt", "discriminator_best.pt", false),
            ("best.pt", "final.onnx", false),
            ("model.pt", "averaged.pt", false),
        ] {
            let choice = |name: &str| Choice::new(name.as_bytes());
            let both = choice(one).zip(choice(other));
            let found = both.is_some_and(|(one, other)| one.is_of_the_same(&other));
            assert_eq!(found, are_choices, "{one} {other}");
        }
    }

    #[test]
    fn steps_are_told_apart() {
        assert_ne!(
            key(b"/out/step-100/__0_0.distcp"),
            key(b"/out/step-200/__0_0.distcp")
        );
        assert_ne!(key(b"/out/model_1.pt"), key(b"/out/model_2.pt"));
        assert!(!key(b"/out/model.pt").is_step);
        for path in [
            "/out/ckpt-7b/model.pt",
            "/out/checkpoint_1.3B-chat/model.pt",
        ] {
            assert!(!key(path.as_bytes()).is_step, "{path}");
        }
        for path in ["/out/step_10k/model.pt", "/out/epoch3/model.pt"] {
            assert!(key(path.as_bytes()).is_step, "{path}");
        }
        // Lightning's versions of a name are none, the user's may be.
        let version = key(b"/out/epoch=3-step=128-v1.ckpt");
        assert_eq!(version, key(b"/out/epoch=3-step=128.ckpt"));
        assert_eq!(key(b"/out/last-v1.ckpt"), key(b"/out/last.ckpt"));
        assert_ne!(key(b"/out/model-v1.pt"), key(b"/out/model-v2.pt"));
    }
}
