//! A server in a thread with a runtime.

use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// A running server. It has ended when this is dropped.
pub struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs what `serve` makes in a new thread called `name`; `missing`: what there is not if it cannot run.
    pub fn start<F: Future<Output = ()>>(
        name: &str,
        missing: &'static str,
        serve: impl FnOnce() -> F + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
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
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of the thread has been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
