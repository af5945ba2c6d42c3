//! Clips: parts of files, of which each epoch reads one of each file.

use std::collections::HashMap;

use crate::{
    passes::{MAX_EXCESS, TOLERATED_SHARE, WHOLE_SHARE, chains, share},
    uses::{Uses, Visit},
};
use iotrace_model::counters::{saturating_add, saturating_sum};

/// Least bytes of a clip: fewer are a look, as at the size of an image.
const MIN_CLIP_BYTES: u64 = 64 << 10;
/// A part is a look if another one of the file has this many times its bytes.
const MIN_LOOK_RATIO: u64 = 8;
/// Minimum number of files whose order tells passes from other reads.
const MIN_FILES: usize = 8;

/// Bytes of a clip, by file, if each pass over the files reads one of each: there the clips are the data. Empty where files are read
/// otherwise; `None` if they are read in parts of which passes are not known.
pub(crate) fn clips(files: &[&[&Visit]], uses: &Uses) -> Option<HashMap<u32, u64>> {
    let about = |reads: &&[&Visit]| {
        let file = reads[0].file;
        (file, uses.sizes[file as usize], uses.reached[file as usize])
    };
    let of_file = |reads: &&[&Visit]| {
        let (file, size, reached) = about(reads);
        Some((file, Clips::of(reads, size, reached)?))
    };
    let are_most = |number: usize| {
        number >= MIN_FILES && number as f64 >= files.len() as f64 * (1.0 - TOLERATED_SHARE)
    };
    let found = files.iter().filter_map(of_file);
    let (known, clips): (Vec<u32>, Vec<Clips>) = found.unzip();
    let may_follow = clips.iter().filter(|clips| clips.may_follow).count();
    if are_most(known.len()) && may_follow <= known.len() / 2 && Clips::are_in_rounds(&clips) {
        let bytes = clips.into_iter().map(|clips| clips.bytes);
        return Some(known.into_iter().zip(bytes).collect());
    }
    let is_odd = |reads: &&&[&Visit]| is_in_odd_parts(reads, about(reads).1);
    let is_unknown = are_most(files.iter().filter(is_odd).count());
    (!is_unknown).then(HashMap::new)
}

/// Whether a process opened a file several times for parts of it that make no whole passes: clips, whose times may not be known.
fn is_in_odd_parts(visits: &[&Visit], size: u64) -> bool {
    let opens = saturating_sum(visits.iter().map(|visit| visit.opens));
    let part = saturating_sum(visits.iter().map(|visit| visit.bytes)) / opens.max(1);
    let total: f64 = visits.iter().map(|visit| share(visit, size)).sum();
    if part < MIN_CLIP_BYTES
        || part as f64 >= size as f64 * WHOLE_SHARE
        || (total - total.round()).abs() <= MAX_EXCESS
    {
        return false;
    }
    let mut opens: HashMap<u32, u64> = HashMap::new();
    for visit in visits {
        saturating_add(opens.entry(visit.process).or_default(), visit.opens);
    }
    opens.values().any(|opens| *opens > 1)
}

/// What a process read of a file until it was closed.
struct Part {
    start: i64,
    end: i64,
    opens: u64,
    bytes: u64,
}

impl Part {
    fn of<'a>(visits: impl Iterator<Item = &'a Visit>) -> Self {
        let mut part = Self {
            start: i64::MAX,
            end: i64::MIN,
            opens: 0,
            bytes: 0,
        };
        for visit in visits {
            part.start = part.start.min(visit.start);
            part.end = part.end.max(visit.end);
            saturating_add(&mut part.opens, visit.opens);
            saturating_add(&mut part.bytes, visit.bytes);
        }
        part
    }

    /// When its clips begin; `usual` is the size of a clip in bytes. A part has one clip, or two that fell into one interval: the
    /// first begins with the part, and the second is taken to begin at its end. `None` if it has neither. The program may open a
    /// file once more to look at it before it reads the clip.
    fn starts_of_clips(&self, usual: u64) -> Option<Vec<i64>> {
        let share = self.bytes as f64 / usual as f64;
        let clips = match share.round() as u64 {
            0 | 1 => 1,
            clips => clips,
        };
        let of_one = share / clips as f64;
        let is_alike = match self.opens == clips {
            true => (WHOLE_SHARE..1.5).contains(&of_one),
            false => self.opens > clips && (of_one - 1.0).abs() <= MAX_EXCESS,
        };
        match clips {
            1 if is_alike => Some(vec![self.start]),
            2 if is_alike => Some(vec![self.start, self.end]),
            _ => None,
        }
    }
}

/// What was read of a file that was opened again and again for a part of it: a clip of a video.
struct Clips {
    /// When it was opened for each, in order; or when it was read.
    starts: Vec<i64>,
    /// Mean bytes of one.
    bytes: u64,
    /// Whether each may be what follows the one before.
    may_follow: bool,
}

impl Clips {
    /// The clips of a file, unless it was opened for other reads too, but looks. `reached`: [`Uses::reached`].
    fn of(visits: &[&Visit], size: u64, reached: u64) -> Option<Self> {
        let is_most = |bytes: u64| bytes as f64 >= size as f64 * WHOLE_SHARE;
        let mut of_visits = visits.iter();
        if of_visits.any(|visit| is_most(visit.bytes / visit.opens.max(1))) {
            return None;
        }
        let mut parts: Vec<Part> = chains(visits)
            .into_iter()
            .map(|chain| Part::of(chain.iter().map(|index| visits[*index])))
            .collect();
        let largest = parts.iter().map(|part| part.bytes).max()?;
        parts.retain(|part| part.bytes > largest / MIN_LOOK_RATIO);
        let mut sizes: Vec<u64> = parts.iter().map(|part| part.bytes).collect();
        sizes.sort_unstable();
        // Few parts are two clips.
        let usual = *sizes.get(sizes.len() / 3)?;
        let mut starts = Vec::new();
        for part in &parts {
            starts.extend(part.starts_of_clips(usual)?);
        }
        starts.sort_unstable();
        let total = saturating_sum(parts.iter().map(|part| part.bytes));
        let bytes = total.checked_div(starts.len() as u64)?;
        let are_clips = starts.len() > 1 && bytes >= MIN_CLIP_BYTES;
        let from_reached = total.abs_diff(reached) as f64;
        let may_follow = reached == 0 || from_reached <= reached as f64 * MAX_EXCESS;
        let clips = Self {
            starts,
            bytes,
            may_follow,
        };
        (are_clips && !is_most(bytes)).then_some(clips)
    }

    /// Whether files were visited in rounds: nearly all of them before one is visited again.
    fn are_in_rounds(all: &[Self]) -> bool {
        let rounds = all.iter().map(|clips| clips.starts.len()).max();
        let starts = |round: usize| {
            let of_round = all.iter().filter_map(|clips| clips.starts.get(round));
            let mut starts: Vec<i64> = of_round.copied().collect();
            starts.sort_unstable();
            starts
        };
        let few = |starts: &[i64]| (starts.len() as f64 * TOLERATED_SHARE) as usize;
        (1..rounds.unwrap_or(0)).all(|round| {
            let (before, next) = (starts(round - 1), starts(round));
            let last = before.iter().rev().nth(few(&before));
            last <= next.get(few(&next))
        })
    }
}
