//! What one side writes once a second and the endpoint reads: the totals, and the state of the service.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{config::Config, front, jobs, own::Usage, totals::Totals};
use iotrace_model::{
    block::{Classes, Device},
    run::Clock,
};
use iotrace_tracer::drain::Stats;
use iotrace_tracer::kernel::{ByPhase, HookState, ProgramRuns};

/// How long the service may go without a look at its data before it is no longer healthy.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything that leaves by HTTP.
#[derive(Debug)]
pub struct State {
    pub totals: Totals,
    /// Durations and sizes, where they are counted.
    pub histograms: Option<ByPhase>,
    /// Requests to block devices, where they are counted.
    pub devices: Vec<(Device, Classes)>,
    pub service: Service,
}

/// The state of the service, as `/status` shows it.
#[derive(Debug, Default, Serialize)]
pub struct Service {
    pub version: &'static str,
    pub host: String,
    pub kernel: String,
    /// RFC 3339.
    pub started: String,
    /// How system calls are seen.
    pub hook: String,
    pub detail: String,
    pub hooks: Vec<HookState>,
    /// How the kernel's clocks stand to each other.
    #[serde(skip)]
    pub clock: Clock,
    /// What is missing, and what that costs.
    pub warnings: Vec<String>,
    /// What was not counted, or not in full, by reason.
    pub unaccounted: BTreeMap<String, u64>,
    pub drain: Draining,
    /// Runs of the kernel programs, where they are measured.
    #[serde(skip)]
    pub programs: Vec<ProgramRuns>,
    pub memory: Memory,
    pub recordings: Recordings,
    /// Job logs, where they are configured.
    pub jobs: Option<jobs::State>,
    /// With password hashes left out.
    pub config: Config,
}

/// What draining costs, and how full the kernel's maps get.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Draining {
    pub drains: u64,
    pub entries: u64,
    pub seconds: f64,
    pub longest_seconds: f64,
    /// Entries of the last drain.
    pub map_entries: u64,
    /// Entries that a generation has room for.
    pub map_entries_limit: u64,
    /// Memory of the maps, bytes.
    pub map_bytes: u64,
}

/// What is remembered.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    pub files: u64,
    pub processes: u64,
    /// Files that were folded into the totals and forgotten.
    pub forgotten_files: u64,
    /// Units that were not looked at for findings, because they have too many files.
    pub findings_skipped: u64,
    /// Counts that were of the phase that a path says, because too many waited for what comes after.
    pub crowded_out: u64,
    /// Reads of environments that the kernel did not answer.
    pub reads_given_up: u64,
    /// Entries of every table that could grow.
    pub tables: BTreeMap<&'static str, u64>,
}

/// Recordings for users without privileges; of whom and of what is said to nobody.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recordings {
    /// Whether they can be asked for.
    pub open: bool,
    /// Why not.
    pub reason: Option<String>,
    pub running: u64,
    /// Since the start of the service.
    pub begun: u64,
    pub refused: u64,
}

impl Draining {
    pub fn update(&mut self, stats: Stats) {
        self.drains = stats.drains;
        self.entries = stats.entries;
        self.seconds = stats.drain_ns as f64 / 1e9;
        self.longest_seconds = stats.slowest_drain_ns as f64 / 1e9;
        self.map_entries = stats.last_entries;
    }
}

/// The state, shared.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    started: Instant,
    /// Milliseconds after `started` of the last look.
    looked: AtomicU64,
    pub front: front::State,
}

impl Shared {
    pub fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            front: front::State::default(),
        }
    }

    /// Works on the state; nobody else does meanwhile.
    pub fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.lock())
    }

    /// Says that the data have been looked at.
    pub fn looked(&self) {
        let elapsed = self.started.elapsed().as_millis() as u64;
        self.looked.store(elapsed, Relaxed);
    }

    /// Whether the data have been looked at lately.
    pub fn is_healthy(&self) -> bool {
        let looked = Duration::from_millis(self.looked.load(Relaxed));
        self.started.elapsed().saturating_sub(looked) < STALL_TIMEOUT
    }

    /// The state of the service.
    pub fn status_json(&self) -> String {
        #[derive(Serialize)]
        struct Status<'a> {
            #[serde(flatten)]
            service: &'a Service,
            series: usize,
            units: usize,
            usage: Usage,
        }
        let state = self.lock();
        let status = Status {
            service: &state.service,
            series: state.totals.series(),
            units: state.totals.units().all().count(),
            usage: Usage::now(&self.front),
        };
        // A map with keys that are no text would be needed for it to fail.
        let mut text = serde_json::to_string_pretty(&status).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Sums that a panic interrupted are still sums.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
