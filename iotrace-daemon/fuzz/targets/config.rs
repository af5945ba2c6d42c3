//! The configuration of the service, and what attributes processes to jobs: texts that others write.
#![no_main]

use std::path::Path;

use iotrace_service::{attribution, config::Config};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let path = Path::new("fuzz.toml");
    if let Ok(config) = Config::parse(&text, path) {
        // Only to see that it ends: most texts say too little for a whole configuration to be wrong.
        let _ = config.checked(&text, path);
    }
    let (environ, cgroup) = data.split_at(data.len() / 2);
    for steps in [false, true] {
        let unit = attribution::unit(environ, &String::from_utf8_lossy(cgroup), steps);
        assert!(unit.name.len() < 1024, "{unit:?}");
    }
});
