//! Names that say what a file holds: data, samples, parts of either.

use iotrace_model::paths::{name, parent, stem, suffix};

/// What a file holds that is one sample, or what a model made of one, if its name begins with the word, or its directory's where
/// the file's does not say it. [`DATA_WORDS`] are such words, too.
const SAMPLE_WORDS: [&str; 38] = [
    "audio",
    "caption",
    "captions",
    "chunk",
    "clip",
    "doc",
    "emb",
    "embed",
    "embedding",
    "embeddings",
    "encoding",
    "encodings",
    "example",
    "feat",
    "feats",
    "feature",
    "features",
    "frame",
    "image",
    "images",
    "img",
    "latent",
    "logits",
    "mask",
    "masks",
    "mel",
    "pred",
    "prediction",
    "predictions",
    "sample",
    "slide",
    "spectrogram",
    "spk",
    "tok",
    "token",
    "tokenized",
    "utt",
    "video",
];
/// What a file holds that is data, even if it is the only one, if its name ends with the word, or its directory's where the file's
/// does not say it.
const DATA_WORDS: [&str; 10] = [
    "cache", "corpus", "data", "dataset", "datasets", "graph", "graphs", "latents", "samples",
    "tokens",
];
/// Those of [`DATA_WORDS`] that alone are names of directories for anything.
const GENERAL_DIRECTORIES: [&str; 2] = ["cache", "data"];
/// Words of names that say weights, whatever else they say.
const WEIGHT_WORDS: [&str; 22] = [
    "adapter",
    "checkpoint",
    "checkpoints",
    "chkpt",
    "ckpt",
    "ckpts",
    "decoder",
    "encoder",
    "model",
    "models",
    "net",
    "network",
    "optim",
    "optimizer",
    "param",
    "params",
    "scheduler",
    "state",
    "trainer",
    "unet",
    "weight",
    "weights",
];
/// Words of names that do not say whether of data or of weights.
const PART_WORDS: [&str; 2] = ["part", "shard"];
/// Formats that have the endings of data as parts of a name, and hold models.
const MODEL_ENDINGS: [&[u8]; 2] = [b".model", b".pb"];

/// Whether a file's name begins with a word for a sample, or that of its directory does where the file's begins with a number or a
/// word for a part.
pub(crate) fn is_named_as_sample(path: &[u8]) -> bool {
    let word = |name: &[u8]| -> String {
        let letters = name.iter().take_while(|byte| byte.is_ascii_alphabetic());
        letters
            .map(|byte| char::from(byte.to_ascii_lowercase()))
            .collect()
    };
    let own = word(name(path));
    let is_number = name(path).first().is_some_and(u8::is_ascii_digit);
    let first = match is_number || PART_WORDS.contains(&own.as_str()) {
        true => word(name(parent(path))),
        false => own,
    };
    (SAMPLE_WORDS.contains(&first.as_str()) || DATA_WORDS.contains(&first.as_str()))
        && !has_weight_word(&words(stem(path)))
}

/// Whether a file's name, or that of its directory if the file's has only numbers and words for a part, ends with a word for data and
/// has none for weights.
pub(crate) fn is_named_as_data(path: &[u8]) -> bool {
    let is_format_of_models = MODEL_ENDINGS.contains(&suffix(path));
    let own = words(stem(path));
    let directory = words(name(parent(path)));
    let is_general =
        |words: &[String]| matches!(words, [word] if GENERAL_DIRECTORIES.contains(&word.as_str()));
    let is_data = |words: &[String]| {
        let last = words.last();
        last.is_some_and(|last| DATA_WORDS.contains(&last.as_str())) && !has_weight_word(words)
    };
    !is_format_of_models
        && match are_of_parts(&own) {
            true => is_data(&directory) && !is_general(&directory),
            false => is_data(&own),
        }
}

/// Whether a file is called as a part of what its name does not say, and its directory not as weights.
pub(crate) fn is_named_as_part(path: &[u8]) -> bool {
    let own = words(stem(path));
    !own.is_empty() && are_of_parts(&own) && !has_weight_word(&words(name(parent(path))))
}

fn are_of_parts(words: &[String]) -> bool {
    words.iter().all(|word| PART_WORDS.contains(&word.as_str()))
}

fn has_weight_word(words: &[String]) -> bool {
    let mut words = words.iter();
    words.any(|word| WEIGHT_WORDS.contains(&word.as_str()))
}

/// The words of a name in lower case, without its digits.
fn words(name: &[u8]) -> Vec<String> {
    let words = name.split(|byte| !byte.is_ascii_alphabetic());
    words
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
        .collect()
}
