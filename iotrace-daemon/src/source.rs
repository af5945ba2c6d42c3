//! Where the counts of a recording come from: the kernel programs of this process, or the service, which has them.

use iotrace_common::{in_flight::Head, key::FileId};

use super::remote::Remote;
use iotrace_model::host;
use iotrace_model::{Model, input::ProcessId, run::Probed};
use iotrace_tracer::drain::{
    Drain, Stats,
    collector::{Collector, Taken},
};
use iotrace_tracer::kernel::{Kernel, KernelError, Losses};

/// A source of counts.
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub enum Source {
    Own {
        kernel: Kernel,
        collector: Collector,
    },
    Service(Remote),
}

impl Source {
    /// Starts to drain the programs of this process.
    pub fn own(kernel: Kernel, drain: Drain) -> std::io::Result<Self> {
        Ok(Self::Own {
            kernel,
            collector: Collector::start(drain)?,
        })
    }

    /// Asks for everything that was done until now; [`Taken::All`] follows.
    pub fn ask(&mut self) {
        match self {
            Self::Own { collector, .. } => collector.ask(),
            Self::Service(remote) => remote.ask(),
        }
    }

    /// The same without CPU time, which takes a look at every thread of the machine.
    pub fn ask_for_counters(&mut self) {
        match self {
            Self::Own { collector, .. } => collector.ask_for_counters(),
            Self::Service(remote) => remote.ask(),
        }
    }

    /// Whether a service counts, whose drains cost others time.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Service(_))
    }

    /// Has the CPU time of the processes in scope counted from now on.
    pub fn begin_anew(&mut self) {
        if let Self::Own { collector, .. } = self {
            collector.begin_anew();
        }
    }

    /// What comes next; `None` when nothing more does.
    pub async fn next(&mut self) -> Option<Taken> {
        match self {
            Self::Own { collector, .. } => collector.next().await,
            Self::Service(remote) => remote.next().await,
        }
    }

    /// What was not counted, by reason.
    pub fn losses(&self) -> Result<Losses, KernelError> {
        match self {
            Self::Own { kernel, .. } => kernel.losses(),
            Self::Service(remote) => Ok(remote.sums().losses.clone()),
        }
    }

    /// Threads whose traced call has not returned; none where the service counts, which tells its own.
    pub fn in_flight(&self) -> Vec<Head> {
        match self {
            Self::Own { kernel, .. } => kernel.in_flight(),
            Self::Service(_) => Vec::new(),
        }
    }

    /// Does what is to be done from time to time.
    pub fn look(&mut self) {
        if let Self::Own { kernel, .. } = self {
            kernel.attach_more();
        }
    }

    /// Puts probes on libraries among the files that were just mapped as code: by whom, when, which.
    pub fn probe(&mut self, mapped: &[(ProcessId, u64, FileId)], model: &Model) {
        let Self::Own { kernel, .. } = self else {
            return;
        };
        for (process, time, file) in mapped {
            if let Some(file) = model.find_file(*file) {
                let ago = || host::monotonic().saturating_sub(*time);
                kernel.probe_mapped(process.pid, file.path, ago);
            }
        }
    }

    /// What is probed.
    pub fn probed(&self) -> Vec<Probed> {
        match self {
            Self::Own { kernel, .. } => kernel.probed().to_vec(),
            Self::Service(_) => Vec::new(),
        }
    }

    /// Why nothing more comes, where that is no error of this process.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Own { .. } => None,
            Self::Service(remote) => remote.reason(),
        }
    }

    /// Ends without a last look.
    pub fn abandon(self) -> Result<(), KernelError> {
        match self {
            Self::Own { kernel, .. } => kernel.detach().map(drop),
            Self::Service(_) => Ok(()),
        }
    }

    /// Takes the hooks off; everything that is left goes to `take`. What was not counted, what draining has cost, and
    /// what is missing, if anything is. `turn` gets what is done next.
    pub async fn end(
        self,
        mut take: impl FnMut(Taken),
        turn: impl Fn(&'static str),
    ) -> anyhow::Result<(Losses, Stats, Option<anyhow::Error>)> {
        match self {
            Self::Own { kernel, collector } => {
                turn("waiting for a drain of the counters");
                let mut drain = collector.stop(&mut take)?;
                turn("taking the hooks off");
                let detached = kernel.detach()?;
                turn("draining the last counters");
                drain.rest(&mut |batch| take(Taken::Batch(batch)))?;
                let mut losses = detached.losses()?;
                if let Some(files) = drain.files() {
                    files.add_to(&mut losses);
                }
                Ok((losses, drain.stats(), None))
            }
            Self::Service(mut remote) => {
                turn("waiting for the service");
                remote.end(take).await;
                let lost = remote.is_lost().then(|| {
                    anyhow::anyhow!("{}", remote.reason().unwrap_or("the service has gone"))
                        .context("what was done after the service's last word is missing")
                });
                let sums = remote.sums();
                Ok((sums.losses.clone(), sums.drains, lost))
            }
        }
    }
}
