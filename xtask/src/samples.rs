//! `cargo xtask samples`: the pictures and sample outputs of the documentation, of programs that iotrace records now.
//!
//! Each sample is a part of a page that this command writes, or a picture in `docs/pictures`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::{Context as _, Result, bail};

use crate::setup::{self, Purpose};
use crate::{cmd, page, run};

const COMMAND: &str = "cargo xtask samples";
const PICTURES: &str = "docs/pictures";
/// A picture may be so large, bytes.
const MAX_PICTURE_BYTES: u64 = 150_000;
/// Columns and lines of the terminal that `iotrace top` runs in.
const TERMINAL: [&str; 2] = ["100", "13"];
/// What runs there.
const TOP: &str = "python3 examples/train.py --epochs 1000 --data data > training.json & exec \"$0\" top --pid $!";
/// How long `iotrace top` starts and counts before its screen is taken.
const TOP_TIME: Duration = Duration::from_secs(8);

/// Pages that show the first screen of `iotrace record -- python3 examples/train.py`.
const SCREEN_PAGES: [&str; 2] = ["README.md", "docs/guide/first-report.md"];
/// Pages that show the first lines of a section of the report of the same program, recorded with the option of the same name.
const SECTION_PAGES: [(&str, &str); 2] = [
    ("lines", "docs/guide/lines.md"),
    ("latencies", "docs/guide/latencies.md"),
];
const SECTION_LINES: usize = 9;
const TOP_PAGE: &str = "docs/guide/live.md";

/// An environment in which nothing of this machine's is, and the host's name of all samples. Recordings belong to who
/// called sudo.
const ENVIRONMENT: [&str; 3] = [
    "PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin",
    "LANG=C.UTF-8",
    "TERM=xterm-256color",
];
const ON_NODE: &str =
    "hostname node17 && exec env -i ${SUDO_UID:+SUDO_UID=$SUDO_UID SUDO_GID=$SUDO_GID} \"$@\"";

/// Records, takes the pictures, and writes the pages.
pub fn task() -> Result<()> {
    setup::ensure(&[Purpose::Build, Purpose::Samples])?;
    cmd::run(cmd::cargo().args(["build", "--locked", "--package", "iotrace-daemon"]))?;
    let samples = Samples::new()?;
    samples.first_report()?;
    samples.comparison()?;
    samples.sections()?;
    samples.top()
}

/// Where programs are recorded, and with what.
struct Samples {
    iotrace: PathBuf,
    /// Made for them, with a copy of the program; samples have its path.
    directory: PathBuf,
}

impl Samples {
    fn new() -> Result<Self> {
        let target = run::target_dir()?;
        let directory = env::temp_dir().join("iotrace-samples");
        cmd::run(cmd::as_root("rm")?.arg("-rf").arg(&directory))?;
        fs::create_dir(&directory).context("cannot make the directory of the samples")?;
        let example = Path::new("examples/train.py");
        fs::create_dir_all(directory.join("examples"))?;
        fs::copy(cmd::root().join(example), directory.join(example))?;
        fs::create_dir_all(cmd::root().join(PICTURES))?;
        let samples = Self {
            iotrace: target.join("debug/iotrace"),
            directory,
        };
        // Makes the data set of all runs but the first.
        let mut train = samples.quietly("80", Path::new("python3"))?;
        cmd::run(train.args(["examples/train.py", "--data", "data", "--epochs", "1"]))?;
        Ok(samples)
    }

    /// A command that runs `program` as root in the samples' directory. Its host is named node17, and its terminal has
    /// `columns` columns.
    fn quietly(&self, columns: &str, program: &Path) -> Result<Command> {
        let mut command = cmd::as_root("unshare")?;
        command.current_dir(&self.directory);
        command.args(["--uts", "bash", "-c", ON_NODE, "bash"]);
        command.args(ENVIRONMENT).arg(format!("COLUMNS={columns}"));
        command.arg(program);
        Ok(command)
    }

    /// Records `examples/train.py`, and returns what iotrace says.
    fn record(&self, options: &[&str], arguments: &[&str]) -> Result<String> {
        let mut record = self.quietly("80", &self.iotrace)?;
        record.arg("record").args(options);
        record
            .args(["--", "python3", "examples/train.py"])
            .args(arguments);
        eprintln!("+ {}", cmd::shown(&record));
        let done = record.stdout(Stdio::null()).output()?;
        let said = String::from_utf8(done.stderr).context("iotrace says what is not UTF-8")?;
        if !done.status.success() {
            bail!("iotrace failed ({}): {said}", done.status);
        }
        Ok(said)
    }

    /// What iotrace prints with these arguments, without rights.
    fn printed(&self, columns: &str, arguments: &[&str]) -> Result<String> {
        let mut iotrace = cmd::command(&self.iotrace);
        iotrace.current_dir(&self.directory).args(arguments);
        cmd::stdout_of(iotrace.env("COLUMNS", columns))
    }

    fn first_report(&self) -> Result<()> {
        let screen = self.record(&[], &[])?;
        for page in SCREEN_PAGES {
            write(page, &screen)?;
        }
        self.picture("report", &["report"], "1200,1190")
    }

    /// One worker against four.
    fn comparison(&self) -> Result<()> {
        for (name, workers) in [("before.d", "1"), ("after.d", "4")] {
            self.record(
                &["--output", name],
                &["--data", "data", "--workers", workers],
            )?;
        }
        self.picture("diff", &["diff", "before.d", "after.d"], "1200,690")
    }

    fn sections(&self) -> Result<()> {
        for (section, page) in SECTION_PAGES {
            let option = format!("--{section}");
            self.record(&[&option, "--output", section], &["--data", "data"])?;
            let text = self.printed("100", &["report", section, "--section", section])?;
            let (_, table) = text.split_once("\n\n").context("a report has no head")?;
            let rows: Vec<&str> = table.lines().take(SECTION_LINES).collect();
            write(page, &rows.join("\n"))?;
        }
        Ok(())
    }

    /// The screen of `iotrace top`, of a program that trains in the same terminal.
    fn top(&self) -> Result<()> {
        let tmux = |arguments: &[&str]| -> Result<Command> {
            let mut tmux = self.quietly(TERMINAL[0], Path::new("tmux"))?;
            tmux.args(["-f", "/dev/null", "-S", "terminal"]);
            tmux.args(arguments);
            Ok(tmux)
        };
        let [columns, lines] = TERMINAL;
        let iotrace = self.iotrace.to_str().context("a path is not UTF-8")?;
        let size = ["new-session", "-d", "-x", columns, "-y", lines];
        cmd::run(&mut tmux(
            &[&size[..], &["bash", "-c", TOP, iotrace]].concat(),
        )?)?;
        thread::sleep(TOP_TIME);
        let screen = cmd::stdout_of(&mut tmux(&["capture-pane", "-p"])?);
        cmd::run(&mut tmux(&["kill-server"])?)?;
        write(TOP_PAGE, &screen?)
    }

    /// Makes the page of `iotrace ARGUMENTS`, and a picture of its top.
    fn picture(&self, name: &str, arguments: &[&str], size: &str) -> Result<()> {
        let page = format!("{name}.html");
        self.printed("80", &[arguments, &["--output", &page]].concat())?;
        let shot = self.directory.join(name).with_extension("png");
        let mut chromium = cmd::command("chromium-headless-shell");
        chromium.args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        chromium.arg(format!("--window-size={size}"));
        chromium.arg(format!("--screenshot={}", shot.display()));
        chromium.arg(format!("file://{}", self.directory.join(page).display()));
        cmd::run(&mut chromium)?;
        let picture = cmd::root().join(PICTURES).join(format!("{name}.png"));
        let mut smaller = cmd::command("pngquant");
        smaller.args(["--force", "--strip", "--speed", "1", "--output"]);
        cmd::run(smaller.arg(&picture).arg("--").arg(&shot))?;
        let bytes = fs::metadata(&picture)?.len();
        if bytes > MAX_PICTURE_BYTES {
            bail!(
                "{} has {bytes} bytes, more than {MAX_PICTURE_BYTES}",
                picture.display()
            );
        }
        eprintln!("wrote {}: {bytes} bytes", picture.display());
        Ok(())
    }
}

/// Replaces the sample of a page.
fn write(file: &str, text: &str) -> Result<()> {
    page::write(
        file,
        COMMAND,
        &format!("```text\n{}\n```\n", text.trim_end()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_part_and_every_picture_is_small() {
        let sections = SECTION_PAGES.map(|(_, page)| page);
        for page in SCREEN_PAGES.into_iter().chain(sections).chain([TOP_PAGE]) {
            let text = fs::read_to_string(cmd::root().join(page)).expect(page);
            assert_eq!(text.matches(COMMAND).count(), 1, "{page}");
        }
        let pictures = fs::read_dir(cmd::root().join(PICTURES)).expect(PICTURES);
        for picture in pictures.map(|entry| entry.expect("a picture")) {
            let bytes = picture.metadata().expect("a file").len();
            assert!(bytes <= MAX_PICTURE_BYTES, "{:?}", picture.path());
        }
    }
}
