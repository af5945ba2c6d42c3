//! `cargo xtask ci`: what has to pass before a change is merged.

use anyhow::Result;

use crate::{lint, setup, test};

/// Lints, then tests. All tools are installed first, so that a missing one is known at once.
pub fn task() -> Result<()> {
    setup::all()?;
    lint::task()?;
    test::task(&[])
}
