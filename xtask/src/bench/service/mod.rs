//! `cargo xtask bench scrape` and `cargo xtask bench daemon`: what the service costs.
//!
//! - `scrape`: a scrape of it, and its memory, with many processes and files
//! - `rates`: its CPU time and memory at several rates of operations, and what programs pay
//! - `program`: the programs that it counts

pub mod program;
pub mod rates;
pub mod scrape;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::iotrace::wait_for;
use crate::cmd;

const MIB: f64 = 1024.0 * 1024.0;

/// A running service, ended when it is dropped.
pub struct Service {
    child: Child,
    address: SocketAddr,
}

/// Its metrics at one moment.
struct Scrape {
    text: String,
    took: Duration,
}

impl Service {
    /// Starts one with these arguments, and waits until it counts.
    pub fn start(scratch: &Path, args: &[&str]) -> Result<Self> {
        const SAYS: &str = "iotrace: listening on ";
        let messages = scratch.join("messages");
        let mut command = Command::new(super::built("iotrace")?);
        command
            .args(["daemon", "--listen", "127.0.0.1:0"])
            .args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(File::create(&messages)?).spawn();
        let mut child = child.context("cannot run iotrace")?;
        wait_for(&mut child, &messages, SAYS)?;
        let said = fs::read_to_string(&messages)?;
        let line = said.lines().find_map(|line| line.strip_prefix(SAYS));
        let address = line.context("the service names no address")?.parse()?;
        Ok(Self { child, address })
    }

    /// Starts one that users may record through `socket`. `more`: other keys of `[recordings]`.
    pub fn start_with_socket(scratch: &Path, socket: &Path, more: &str) -> Result<Self> {
        let configuration = scratch.join("iotrace.toml");
        let text = format!("[recordings]\nsocket = {socket:?}\n{more}");
        fs::write(&configuration, text)?;
        let path = configuration.to_str().context("the name of a directory")?;
        Self::start(scratch, &["--config", path])
    }

    /// The answer to a request, its header included.
    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Waits until `count` recordings run.
    pub fn until_recordings(&self, count: u64) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(120);
        while Instant::now() < end {
            let text = self.get("/status")?;
            let body = text.find('{').map_or("", |start| &text[start..]);
            let status: serde_json::Value = serde_json::from_str(body)?;
            if status["recordings"]["running"] == count {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("there are not {count} recordings after two minutes")
    }

    /// Asks for the metrics as Prometheus does.
    fn scrape(&self) -> Result<Scrape> {
        let started = Instant::now();
        let text = self.get("/metrics")?;
        let took = started.elapsed();
        if !text.starts_with("HTTP/1.0 200") && !text.starts_with("HTTP/1.1 200") {
            bail!(
                "the service answers {}",
                text.lines().next().unwrap_or("nothing")
            );
        }
        Ok(Scrape { text, took })
    }

    /// Scrapes until a sum is at least as large as it has to be.
    fn until(&self, name: &str, labels: &[&str], least: f64) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let now = self.scrape()?.sum(name, labels);
            if now >= least {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{name} stays at {now}, where {least} was expected");
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SAFETY: kill touches no memory, and the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

impl Scrape {
    /// Sum over the series of a name that have all these labels.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix(name));
        lines
            .filter(|line| line.starts_with(['{', ' ']))
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Of both processes of the service.
    fn resident(&self) -> f64 {
        self.sum("process_resident_memory_bytes", &[])
            + self.sum("iotrace_front_resident_memory_bytes", &[])
    }

    fn cpu(&self) -> f64 {
        self.sum("process_cpu_seconds_total", &[])
            + self.sum("iotrace_front_cpu_seconds_total", &[])
    }
}

/// A filesystem in memory without a bound on its files, gone with this.
struct Memory(PathBuf);

impl Memory {
    fn mount(scratch: &Path) -> Result<Self> {
        let path = scratch.join("memory");
        fs::create_dir_all(&path)?;
        let mut mount = cmd::command("mount");
        mount.args(["-t", "tmpfs", "-o", "nr_inodes=0,size=90%", "tmpfs"]);
        cmd::run(mount.arg(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = cmd::run(cmd::command("umount").arg("--lazy").arg(&self.0));
    }
}

/// This program as one that is counted, of a Slurm job.
fn program(job: u32, what: &str, dir: &Path, numbers: &[u64]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "program", what]).arg(dir);
    command.args(numbers.iter().map(u64::to_string));
    command.env("SLURM_JOB_ID", job.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}
