//! The configuration that flags, environment and file give together.

use std::path::PathBuf;

use super::{Config, ConfigError, DEFAULT_PATH, Flags};

impl Flags {
    /// The configuration: the file, overridden, and checked as a whole.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let file = self.config.as_deref();
        let (mut config, text) = Config::read(file)?;
        self.apply(&mut config);
        config.checked(&text, file.unwrap_or(DEFAULT_PATH.as_ref()))
    }

    /// The file that is named, or the default one where it is there.
    pub fn file(&self) -> Option<PathBuf> {
        let default = PathBuf::from(DEFAULT_PATH);
        self.config
            .clone()
            .or_else(|| default.exists().then_some(default))
    }
}
