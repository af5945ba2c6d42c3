//! Which data a model is only tried on, by their names.

const EVALUATION_NAMES: [&str; 7] = [
    "val",
    "valid",
    "validation",
    "test",
    "testing",
    "eval",
    "dev",
];

/// Words in the names of scripts that only try a model, besides [`EVALUATION_NAMES`].
const EVALUATION_SCRIPTS: [&str; 9] = [
    "benchmark",
    "evaluate",
    "evaluation",
    "infer",
    "inference",
    "predict",
    "score",
    "tester",
    "validate",
];

const TRAINING_NAMES: [&str; 2] = ["train", "training"];
/// Names of a path, from the file's on, that may say what data are for: further out are projects and machines.
const DATA_LEVELS: usize = 4;

/// Whether the path is of data that a model is only tried on: the innermost name that says what data are for decides.
pub fn is_of_evaluation(path: &[u8]) -> bool {
    let names = below_home(path).rsplit(|byte| *byte == b'/');
    let mut names = names.take(DATA_LEVELS);
    names.find_map(is_named_for_evaluation) == Some(true)
}

/// Whether a script or module is called as one that only tries a model.
pub fn is_script_of_evaluation(script: &[u8]) -> bool {
    has_word(script, &EVALUATION_NAMES) || has_word(script, &EVALUATION_SCRIPTS)
}

/// A path without its first directories where these have the names of users or filesystems, not of data: `/home/test`,
/// `/dev/shm`.
fn below_home(path: &[u8]) -> &[u8] {
    if let Some(rest) = path.strip_prefix(b"/dev/") {
        return rest;
    }
    let homes: [&[u8]; 3] = [b"/home/", b"/users/", b"/Users/"];
    let Some(rest) = homes.iter().find_map(|home| path.strip_prefix(*home)) else {
        return path;
    };
    let user = rest.iter().position(|byte| *byte == b'/');
    &rest[user.unwrap_or(rest.len())..]
}

/// Whether one of these words is in a name, in lower or upper case, with or without digits after it.
fn has_word(name: &[u8], words: &[&str]) -> bool {
    let mut parts = name.split(|byte| b"._-".contains(byte));
    parts.any(|part| {
        let digits = part.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let word = &part[..part.len() - digits.count()];
        let mut words = words.iter();
        words.any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
    })
}

/// What a name says that data are for: `Some(true)` for validation, `Some(false)` for training, `None` for neither or both.
pub fn is_named_for_evaluation(name: &[u8]) -> Option<bool> {
    let is_evaluation = has_word(name, &EVALUATION_NAMES);
    (is_evaluation != has_word(name, &TRAINING_NAMES)).then_some(is_evaluation)
}
