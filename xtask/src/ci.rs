//! `cargo xtask ci`: what has to pass before a change is merged.

use anyhow::Result;

use crate::setup::{self, Purpose};
use crate::{lint, test};

/// Lints, then tests. All tools are installed first, so that a missing one is known at once.
pub fn task() -> Result<()> {
    setup::ensure(&[Purpose::Build, Purpose::Lint, Purpose::Test])?;
    lint::task()?;
    test::task(&[])
}
