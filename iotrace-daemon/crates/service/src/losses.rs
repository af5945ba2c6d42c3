//! What was not counted.

use iotrace_tracer::kernel::Losses;

/// What was not counted since it was as `before`.
pub fn since(losses: &Losses, before: &Losses) -> Losses {
    let since = losses.iter().map(|(reason, count)| {
        let earlier = before.get(reason).copied().unwrap_or(0);
        (reason.clone(), count.saturating_sub(earlier))
    });
    since.collect()
}
