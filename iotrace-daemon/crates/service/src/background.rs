//! Servers beside the service's own work, each in a thread of its own.

use tokio::sync::oneshot;

/// A running server. Ends when it is dropped.
pub struct Background {
    _stop: oneshot::Sender<()>,
}

impl Background {
    /// Runs what `serve` makes in a new thread called `name`; `missing`: what there is not where it cannot run.
    pub fn start<F: Future<Output = ()>>(
        name: &str,
        missing: &'static str,
        serve: impl FnOnce() -> F + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                match runtime {
                    Ok(runtime) => runtime.block_on(async {
                        tokio::select! {
                            () = serve() => {}
                            _ = stopped => {}
                        }
                    }),
                    Err(error) => log::error!("no {missing}: {error}"),
                }
            })?;
        Ok(Self { _stop: stop })
    }
}
