//! Which of the processes that read training data train: ranks run one program at one time, with their workers. A program that
//! checks or caches the data does not.

use std::collections::{HashMap, HashSet};

use super::{
    balance::{Share, shares},
    evaluation::is_script_of_evaluation,
    uses::Visit,
};
use iotrace_model::{About, Model, Process, groups::Groups, paths::name, run::Run};

/// Whether two processes may be ranks of one job: they run one program, at one time or as ranks of other numbers. What is
/// not known of a process excludes nothing.
pub fn are_beside(model: &Model, run: &Run, one: u32, other: u32) -> bool {
    let [one, other] = [one, other].map(|process| about(model, process));
    let began = |about: &About| match about.start_boottime {
        0 => i64::MIN,
        start => run.clock.unix_ns_of_boottime(start),
    };
    let ended = |about: &About| about.end.map_or(i64::MAX, |end| run.clock.unix_ns(end));
    let number = |about: &About| about.role.rank.map(|rank| rank.number);
    let are_told_apart = number(one)
        .zip(number(other))
        .is_some_and(|(one, other)| one != other);
    let is_at_one_time = began(other) < ended(one) && began(one) < ended(other);
    run_the_same(one, other) && (is_at_one_time || are_told_apart)
}

/// First processes of ranks that run another program than the one that reads most, or another script that is called as a test and
/// saves nothing, if they read only before or after it.
pub fn strangers(model: &Model, visits: &[&Visit], groups: &Groups) -> HashSet<u32> {
    let readers = shares(visits.iter().copied(), |process| groups.of(process));
    // Of those that read as much, the one that came last: data are cached and checked before.
    let most = readers.values().max_by_key(|read| (read.bytes, read.start));
    let Some(trainer) = most else {
        return HashSet::new();
    };
    let program = about(model, trainer.process);
    let saving = groups.with(model, Process::saves);
    let others = readers.values().filter(|read| {
        let other = about(model, read.process);
        let is_tried = || !saving.contains(&read.process) && tries_out(program, other);
        !run_the_same(program, other) || is_tried()
    });
    let mut by_program: HashMap<_, Vec<&Share>> = HashMap::new();
    for read in others {
        let about = about(model, read.process);
        let program = (name(&about.exe), script(about));
        by_program.entry(program).or_default().push(read);
    }
    let is_apart = |read: &&Share| read.end <= trainer.start || read.start >= trainer.end;
    let strangers = by_program
        .into_values()
        .filter(|reads| reads.iter().all(is_apart));
    strangers.flatten().map(|read| read.process).collect()
}

fn about(model: &Model, process: u32) -> &About {
    &model.processes()[process as usize].about
}

/// Whether both run Python, and the other one a script that is called as a test, and not as the one.
fn tries_out(one: &About, other: &About) -> bool {
    let scripts = script(one).zip(script(other));
    scripts.is_some_and(|(one, other)| one != other && is_script_of_evaluation(other))
}

/// Name of the script or module that a Python process runs; `None` if that is not known.
fn script(about: &About) -> Option<&[u8]> {
    if !name(&about.exe).starts_with(b"python") {
        return None;
    }
    let mut args = about.args.iter().skip(1).map(Vec::as_slice);
    loop {
        match args.next()? {
            b"-c" => return None,
            b"-m" => return args.next(),
            b"-W" | b"-X" => drop(args.next()),
            option if option.starts_with(b"-") => {}
            script => return Some(name(script)),
        }
    }
}

/// Whether both run the same program: on each node it may have another place.
fn run_the_same(one: &About, other: &About) -> bool {
    one.exe.is_empty() || other.exe.is_empty() || name(&one.exe) == name(&other.exe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_known_by_their_names() {
        let script_of = |exe: &str, args: &[&str]| {
            let about = About {
                exe: exe.into(),
                args: args.iter().map(|arg| (*arg).into()).collect(),
                ..About::default()
            };
            script(&about).map(|script| String::from_utf8_lossy(script).into_owned())
        };
        let of = |args: &[&str]| script_of("/usr/bin/python3.13", args);
        assert_eq!(
            of(&["python3", "/job/train.py", "--lr"]).unwrap(),
            "train.py"
        );
        let options = ["python", "-u", "-X", "dev", "-W", "ignore", "x.py"];
        assert_eq!(of(&options).unwrap(), "x.py");
        assert_eq!(of(&["python", "-m", "job.train"]).unwrap(), "job.train");
        assert_eq!(of(&["python", "-c", "import x"]), None);
        assert_eq!(of(&["python"]), None);
        assert_eq!(script_of("/bin/cat", &["cat", "x.py"]), None);
    }
}
