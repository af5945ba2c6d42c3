//! A new configuration while it runs.

use tokio::sync::oneshot;

use super::Daemon;
use iotrace_service::{config::Config, front::Settings, totals::Totals};

impl Daemon {
    /// Reads the configuration again. One that is wrong changes nothing.
    pub fn reload(&mut self) {
        self.notifier.reloading();
        match self.flags.config() {
            Ok(new) => self.change(new),
            Err(error) => {
                log::error!("nothing is reloaded: {error}");
                self.notifier.ready(&self.summary());
            }
        }
    }

    fn change(&mut self, new: Config) {
        let fixed = self.config.fixed_changes(&new);
        if !fixed.is_empty() {
            log::warn!("takes effect at the next start: {}", fixed.join(", "));
        }
        match Settings::read(&new.http) {
            Ok(settings) => self.applied = Some(self.front.reload(&settings)),
            Err(error) => log::error!("the users and the certificate stay as they were: {error}"),
        }
        if let Some(socket) = &self.socket {
            socket.reload(&new);
        }
        self.config = self.config.reloaded(new);
        let config = &self.config;
        self.shared.with(|state| {
            state.totals.set_limit(config.metrics.max_series);
            bound_top(&mut state.totals, config);
            state.service.config = config.clone();
        });
        if self.applied.is_none() {
            self.reloaded();
        }
    }

    /// All of the new configuration is in use.
    pub fn reloaded(&mut self) {
        eprintln!("iotrace: the configuration is reloaded");
        self.notifier.ready(&self.summary());
    }
}

/// Waits until the front uses new settings; for ever if it has been given none.
pub async fn applied(waiting: &mut Option<oneshot::Receiver<()>>) {
    match waiting {
        // Its end is the answer, too.
        Some(applies) => drop(applies.await),
        None => std::future::pending().await,
    }
    *waiting = None;
}

pub fn bound_top(totals: &mut Totals, config: &Config) {
    totals.directories.set_limit(config.metrics.top_directories);
    totals.processes.set_limit(config.metrics.top_processes);
}
